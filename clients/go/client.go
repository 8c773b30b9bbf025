package fanfare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options are the settings of a client. The zero value is that of a server that needs no key.
type Options struct {
	// Key is an API key or a user token that is sent with every call.
	Key string
	// Token, if set, is used instead of Key. It gets a user token, from your own backend say. It is called
	// before the first call, and again when the server answers 401; its results are shared by all calls. It is
	// never called twice at the same time.
	Token func(context.Context) (string, error)
	// HTTP makes the requests. It must have no Timeout, which would end streams. By default the client has one of its
	// own that follows no redirects.
	HTTP *http.Client
	// Attempts is how often a call is tried; 5 by default.
	Attempts int
	// Timeout is how long one attempt may take; 10 s by default. Calls that wait on the server have
	// as much more as they wait.
	Timeout time.Duration
	// MinBackoff is the longest wait before the second attempt, and doubles for each one after that, up to
	// MaxBackoff. The waits are random. The defaults are 200 ms and 10 s.
	MinBackoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest Retry-After that a call waits for. It returns the problem if the server asks
	// for more; 30 s by default.
	MaxRetryAfter time.Duration
}

// Client calls one server, or several behind one address. It may be used by many goroutines at once.
type Client struct {
	base  string
	o     Options
	token *tokens
}

// New makes a client of the server at an address such as https://fanfare.internal. It connects to nothing.
func New(address string, o Options) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("fanfare: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("fanfare: the address must be http:// or https:// with a host, without user, query and fragment")
	}
	if o.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		o.HTTP = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirected POST could become a GET
		}}
	}
	setDefault(&o.Attempts, 5)
	setDefault(&o.Timeout, 10*time.Second)
	setDefault(&o.MinBackoff, 200*time.Millisecond)
	setDefault(&o.MaxBackoff, 10*time.Second)
	setDefault(&o.MaxRetryAfter, 30*time.Second)
	return &Client{base: strings.TrimRight(u.String(), "/"), o: o, token: newTokens(o)}, nil
}

// setDefault sets what the caller left at zero.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Path makes a path of its parts, each of which is escaped: Path("v1", "chats", id).
func Path(parts ...string) string {
	var path strings.Builder
	for _, part := range parts {
		path.WriteString("/" + url.PathEscape(part))
	}
	return path.String()
}

// Setting changes one call.
type Setting func(*call)

// IdempotencyKey names a POST, so that it has one effect however often it is made within 24 hours, also by
// another process: "order-1042". Without it a call has a new key of its own, which is in CallError.
func IdempotencyKey(key string) Setting { return func(c *call) { c.key = key } }

// Timeout is how long each attempt of this call may take. The whole call ends with its context.
func Timeout(d time.Duration) Setting { return func(c *call) { c.timeout = d } }

// Attempts is how often this call is tried; 1 repeats nothing.
func Attempts(n int) Setting { return func(c *call) { c.attempts = n } }

// Query adds parameters to the path.
func Query(q url.Values) Setting { return func(c *call) { c.query = q } }

// Header sets a header, such as If-Match.
func Header(name, value string) Setting { return func(c *call) { c.header.Set(name, value) } }

// IfMatch makes a change only if what is there has this ETag.
func IfMatch(etag string) Setting { return Header("If-Match", etag) }

// IfAbsent makes a change only if nothing is there.
func IfAbsent() Setting { return Header("If-None-Match", "*") }

// OnAnswer is called with the status and the headers of the successful answer, such as its ETag.
func OnAnswer(f func(status int, header http.Header)) Setting {
	return func(c *call) { c.onAnswer = f }
}
