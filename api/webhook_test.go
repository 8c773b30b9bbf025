package api

import (
	"strings"
	"testing"
)

// H8: the URL of a webhook has no user info and no fragment, and is one of HTTP.
func TestH8_URLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://shop.example.com": true, "https://shop.example.com:8443/a/b?c=d%20e": true, "https://10.0.0.7/": true, "https://[2001:db8::1]:443/x": true, "http://127.0.0.1:3000/hook": true,
		"HTTPS://shop.example.com/": true,
		"":                          false, "shop.example.com": false, "//shop.example.com/": false, "ftp://shop.example.com/": false, "https:shop": false, "https://": false, "https:///x": false, "https://:443/": false,
		"https://user@shop.example.com/": false, "https://user:pass@shop.example.com/": false, "https://@shop.example.com/": false,
		"https://shop.example.com/#": false, "https://shop.example.com/#x": false, "https://shop.example.com:/": false, "https://shop.example.com:x/": false,
		"https://shop.example.com/a b": false, "https://shop.example.com/\n": false, "https://shöp.example.com/": false,
		"https://shop.example.com/" + strings.Repeat("a", MaxWebhookURL): false,
	} {
		if _, ok := ParseWebhookURL(text); ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
}
