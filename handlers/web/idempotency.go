package web

import (
	"crypto/sha256"
	"net/http"
	"reflect"
	"strings"

	"fanfare/api"
)

// fillIdempotency sets the request's api.Idempotency, if it has one.
func (p *plan) fillIdempotency(r *http.Request, in reflect.Value, body []byte) error {
	if p.secret && r.Method == http.MethodPost && len(r.Header.Values("Idempotency-Key")) > 0 {
		return api.Errorf(api.CodeInvalidRequest, "this call takes no Idempotency-Key: its answer is a secret and is not kept")
	}
	if p.idempotency == nil {
		return nil
	}
	key, err := idempotencyKey(r.Header)
	if err != nil || key == "" {
		return err
	}
	in.FieldByIndex(p.idempotency).Set(reflect.ValueOf(api.Idempotency{
		Scope: infoOf(r.Context()).caller() + " " + r.Method + " " + r.URL.Path,
		Key:   key,
		Body:  sha256.Sum256(canonical(body)),
	}))
	return nil
}

// idempotencyKey reads the one Idempotency-Key header, quoted or bare; "" when
// there is none.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", api.Errorf(api.CodeInvalidRequest, "send one Idempotency-Key header, not %d", len(values))
	}
	key, ok := unquote(strings.Trim(values[0], " \t"))
	if !ok || key == "" || len(key) > api.MaxIdempotencyKey || !printable(key) {
		return "", api.Errorf(api.CodeInvalidRequest,
			"an Idempotency-Key is 1 to %d printable ASCII characters, quoted or bare", api.MaxIdempotencyKey)
	}
	return key, nil
}

// unquote reads a structured-field string; a text that does not begin with a quote is taken as
// it is.
func unquote(s string) (string, bool) {
	inner, quoted := strings.CutPrefix(s, `"`)
	if !quoted {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"':
			return b.String(), i == len(inner)-1
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(inner) && (inner[i+1] == '"' || inner[i+1] == '\\'):
			i++
			b.WriteByte(inner[i])
		default:
			return "", false
		}
	}
	return "", false // the quote is never closed
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
