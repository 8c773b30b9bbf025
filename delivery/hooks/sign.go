package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"fanfare/store/webhooks"
)

// The headers of Standard Webhooks.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// sign makes the value of the header webhook-signature: a signature by each secret, over the id, the second and the
// bytes of the body.
func sign(secrets []string, id string, at time.Time, body []byte) (string, error) {
	all := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := webhooks.KeyOf(secret)
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " "), nil
}
