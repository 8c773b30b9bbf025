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

// A secret, such as a ticket, is 128 random bits and the first bytes of their MAC, in base64: a made-up
// one is refused without asking Redis.
const (
	secretRandom = 16 // bytes
	secretMAC    = 8
)

// ticketPurpose is what tickets are for, see NewSecret.
const ticketPurpose = "ticket"

// GiveTicket makes a ticket from the credentials that a user calls with. It opens one stream or
// long poll in the user's name, within 60 s and before the user's token ends.
func (s *Store) GiveTicket(ctx context.Context, u *api.User) (*api.Ticket, error) {
	ticket, err := s.NewSecret(ticketPurpose)
	if err != nil {
		return nil, err
	}
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
	if !s.MadeSecret(ticketPurpose, ticket) {
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

// NewSecret makes a secret for a purpose, which MadeSecret recognises on every server.
func (s *Store) NewSecret(purpose string) (string, error) {
	own := s.signer()
	if own == nil {
		return "", errNoSigner()
	}
	random := make([]byte, secretRandom, secretRandom+secretMAC)
	rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(append(random, own.secretMAC(purpose, random)...)), nil
}

// MadeSecret reports whether NewSecret made a secret for the purpose, with a key that fanfare still has.
func (s *Store) MadeSecret(purpose, secret string) bool {
	text, err := base64.RawURLEncoding.DecodeString(secret)
	keys := s.own.Load()
	if err != nil || len(text) != secretRandom+secretMAC || keys == nil {
		return false
	}
	random, mac := text[:secretRandom], text[secretRandom:]
	return slices.ContainsFunc(*keys, func(own ownKey) bool { return hmac.Equal(mac, own.secretMAC(purpose, random)) })
}

// secretMAC is the MAC of a secret's random bytes, which proves that a server made the secret.
func (o *ownKey) secretMAC(purpose string, random []byte) []byte {
	h := hmac.New(sha256.New, o.private.Seed())
	h.Write([]byte(purpose + " "))
	h.Write(random)
	return h.Sum(nil)[:secretMAC]
}

func errNoTicket() error {
	return api.Errorf(api.CodeUnauthorized, "the ticket is not valid; each opens one stream within 60 s")
}
