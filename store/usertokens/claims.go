package usertokens

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"fanfare/api"
)

// claims are the claims that fanfare reads; others are ignored.
type claims struct {
	Subject   string         `json:"sub"`
	Audience  jsontext.Value `json:"aud"` // a name, or a list of names
	Party     jsontext.Value `json:"azp"` // in our own tokens the id of an API key; others put anything there
	Scope     string         `json:"scope"`
	IssuedAt  *float64       `json:"iat"`
	NotBefore *float64       `json:"nbf"`
	ExpiresAt *float64       `json:"exp"`
}

var errClaims = errors.New("the claims of a token do not hold")

// openToken checks a token's signature with the key that its kid names, once admit lets it.
// forged tells that the signature was computed and does not match. Tokens that can be refused
// without that cost next to nothing.
func openToken(token string, keys keySet, admit func() error) (kid string, payload []byte, forged bool, err error) {
	if len(token) > api.MaxToken {
		return "", nil, false, errNotValid()
	}
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return "", nil, false, errNotValid()
	}
	header := jws.Signatures[0].Protected
	_, critical := header.ExtraHeaders["crit"]
	_, encoded := header.ExtraHeaders["b64"]
	k, known := keys[header.KeyID]
	if critical || encoded || !known || header.Algorithm != string(k.algorithm) {
		return "", nil, false, errNotValid()
	}
	if err := admit(); err != nil {
		return "", nil, false, err
	}
	if payload, err = jws.Verify(k.value); err != nil {
		return "", nil, true, errNotValid()
	}
	return header.KeyID, payload, false, nil
}

// readClaims reads which user a token of a key stands for, and from when to when. Names are compared as
// they are; a name that occurs twice is refused.
func readClaims(kid string, payload []byte, now time.Time) (*api.User, error) {
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, err
	}
	issued, okIssued := secondOf(c.IssuedAt)
	expires, okExpires := secondOf(c.ExpiresAt)
	notBefore := issued
	okNotBefore := true
	if c.NotBefore != nil {
		notBefore, okNotBefore = secondOf(c.NotBefore)
	}
	latest := now.Add(api.MaxTokenAhead)
	switch {
	case !okIssued, !okExpires, !okNotBefore, issued.After(latest), notBefore.After(latest):
		return nil, errClaims
	case expires.Sub(issued) > api.MaxTokenTTL, !api.ValidIdentifier(c.Subject), !c.forUs():
		return nil, errClaims
	}
	u := &api.User{ID: c.Subject, KeyID: kid, IssuedAt: issued, ExpiresAt: expires}
	if strings.HasPrefix(kid, ownPrefix) && len(c.Party) > 0 {
		if err := json.Unmarshal(c.Party, &u.MadeBy); err != nil {
			return nil, err
		}
	}
	for scope := range strings.FieldsSeq(c.Scope) {
		if s := api.UserScope(scope); slices.Contains(api.UserScopes, s) && !u.Allows(s) {
			u.Scopes = append(u.Scopes, s)
		}
	}
	return u, nil
}

// forUs reports whether the audience is fanfare, or contains it.
func (c *claims) forUs() bool {
	if c.Audience.Kind() == '"' {
		var one string
		return json.Unmarshal(c.Audience, &one) == nil && one == api.TokenAudience
	}
	var several []string
	return c.Audience.Kind() == '[' && json.Unmarshal(c.Audience, &several) == nil && slices.Contains(several, api.TokenAudience)
}

// secondOf reads a time in seconds since the Unix epoch; fractions of a second are cut off.
func secondOf(at *float64) (time.Time, bool) {
	const most = 1 << 40 // in some 30,000 years
	if at == nil || !(*at >= 0 && *at < most) {
		return time.Time{}, false
	}
	return time.Unix(int64(*at), 0), true
}
