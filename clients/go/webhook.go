package fanfare

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// WebhookTolerance is how far the time in a webhook's request may be from now. An older request may be one that
// somebody recorded and sends again.
const WebhookTolerance = 5 * time.Minute

// ErrWebhook says that a request does not come from the webhook with these secrets, or is too old.
var ErrWebhook = errors.New("fanfare: no request of this webhook")

// Fact is one thing that happened.
type Fact struct {
	// ID is the same each time that the fact is sent: whoever keeps it can leave out repeats.
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Key  string          `json:"key"` // what it happened to
	At   time.Time       `json:"at"`
	Data json.RawMessage `json:"data"`
}

// WebhookBatch is the body of a webhook's request.
type WebhookBatch struct {
	Webhook string `json:"webhook"`
	// Gap is how many facts before these are lost, because they were kept no longer.
	Gap   int64  `json:"gap"`
	Facts []Fact `json:"facts"`
}

// VerifyWebhook checks that a request comes from fanfare, by its headers and the bytes of its body, and reads it. One of
// the secrets must have signed it; while a secret is being replaced, give both. The error is ErrWebhook if none has, or
// if the request is older or newer than WebhookTolerance. Read the body with a limit, such as http.MaxBytesReader:
// a batch has at most 64 KiB, unless one fact alone is larger.
func VerifyWebhook(secrets []string, header http.Header, body []byte) (*WebhookBatch, error) {
	return verifyWebhook(secrets, header, body, time.Now())
}

func verifyWebhook(secrets []string, header http.Header, body []byte, now time.Time) (*WebhookBatch, error) {
	id, at := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	second, err := strconv.ParseInt(at, 10, 64)
	if id == "" || err != nil {
		return nil, fmt.Errorf("%w: it has no webhook-id or webhook-timestamp", ErrWebhook)
	}
	if off := now.Sub(time.Unix(second, 0)); off.Abs() > WebhookTolerance {
		return nil, fmt.Errorf("%w: its time is %v from now", ErrWebhook, off.Round(time.Second))
	}
	signed := false
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return nil, errors.New("fanfare: a webhook's secret is whsec_ and base64")
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		want := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for _, line := range header.Values("Webhook-Signature") {
			for one := range strings.FieldsSeq(line) {
				signed = hmac.Equal([]byte(one), want) || signed
			}
		}
	}
	if !signed {
		return nil, fmt.Errorf("%w: none of its signatures is by a secret", ErrWebhook)
	}
	var batch WebhookBatch
	if err := json.Unmarshal(body, &batch); err != nil {
		return nil, fmt.Errorf("fanfare: read a webhook's request: %w", err)
	}
	return &batch, nil
}
