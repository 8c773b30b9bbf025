package usertokens

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// A ticket is 128 random bits and the first bytes of their MAC, in base64: a made-up ticket is
// refused without asking Redis.
const (
	ticketRandom = 16 // bytes
	ticketMAC    = 8
)

// GiveTicket makes a ticket from the credentials that a user calls with. It opens one stream or
// long poll in the user's name, within 60 s and before the user's token ends.
func (s *Store) GiveTicket(ctx context.Context, u *api.User) (*api.Ticket, error) {
	own := s.signer()
	if own == nil {
		return nil, errNoSigner()
	}
	random := make([]byte, ticketRandom, ticketRandom+ticketMAC)
	rand.Read(random) // never fails
	ticket := base64.RawURLEncoding.EncodeToString(append(random, own.ticketMAC(random)...))
	value, err := json.Marshal(u)
	if err != nil {
		return nil, fmt.Errorf("write a ticket: %w", err)
	}
	lasts := min(api.TicketTTL, u.ExpiresAt.Sub(s.now()))
	if lasts < time.Millisecond {
		return nil, errNotValid()
	}
	cmd := redis.NewStatusCmd(ctx, "set", ticketKey(ticket), value, "px", lasts.Milliseconds())
	if err := s.db.Do(ctx, redisdb.Write, cmd); err != nil {
		return nil, fmt.Errorf("keep a ticket: %w", err)
	}
	return &api.Ticket{Ticket: ticket, ExpiresAt: api.At(s.now().Add(lasts))}, nil
}

// TakeTicket uses a ticket up and returns its user. A ticket that was never made, was already
// taken or has ended is api.CodeUnauthorized.
func (s *Store) TakeTicket(ctx context.Context, ticket string) (*api.User, error) {
	if !s.madeTicket(ticket) {
		return nil, errNoTicket()
	}
	cmd := redis.NewStringCmd(ctx, "getdel", ticketKey(ticket))
	if err := s.db.Share(ctx, redisdb.Write, cmd); err != nil {
		return nil, fmt.Errorf("take a ticket: %w", err)
	}
	value, err := cmd.Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, errNoTicket()
	}
	u := &api.User{}
	if err == nil {
		err = json.Unmarshal(value, u)
	}
	if err != nil {
		return nil, fmt.Errorf("read a ticket: %w", err)
	}
	if s.Ended(u) != "" {
		return nil, errNoTicket()
	}
	return u, nil
}

// madeTicket tells whether a ticket was made with one of fanfare's own keys.
func (s *Store) madeTicket(ticket string) bool {
	text, err := base64.RawURLEncoding.DecodeString(ticket)
	keys := s.own.Load()
	if err != nil || len(text) != ticketRandom+ticketMAC || keys == nil {
		return false
	}
	random, mac := text[:ticketRandom], text[ticketRandom:]
	return slices.ContainsFunc(*keys, func(own ownKey) bool { return hmac.Equal(mac, own.ticketMAC(random)) })
}

// ticketMAC is the MAC of a ticket's random bytes, which proves that a server made the ticket.
func (o *ownKey) ticketMAC(random []byte) []byte {
	h := hmac.New(sha256.New, o.private.Seed())
	h.Write([]byte("ticket "))
	h.Write(random)
	return h.Sum(nil)[:ticketMAC]
}

func errNoTicket() error {
	return api.Errorf(api.CodeUnauthorized, "the ticket is not valid; each opens one stream within 60 s")
}
