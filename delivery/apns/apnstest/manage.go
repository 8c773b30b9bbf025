package apnstest

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// managing is the management host: it makes, shows and deletes channels.
type managing struct {
	listener net.Listener
	script   *script
	away     bool // guarded by the server's lock

	mu       sync.Mutex
	channels map[string]map[string]int // storage policies by bundle id and channel
}

// manage makes the management host listen.
func (s *Server) manage() (err error) {
	m := &s.managing
	m.script, m.channels = newScript(), map[string]map[string]int{}
	if m.listener, err = net.Listen("tcp", s.o.ManageAddr); err != nil {
		return fmt.Errorf("listen as the management host: %w", err)
	}
	s.wg.Add(1)
	go s.accept(m.listener, true)
	return nil
}

// ManageURL is the base URL of the management host.
func (s *Server) ManageURL() string { return "https://" + s.ManageAddr() }

// ManageAddr is the address at which the management host listens.
func (s *Server) ManageAddr() string { return s.managing.listener.Addr().String() }

// RefuseManagement (true) closes all connections to the management host, and new ones at once, until
// RefuseManagement(false).
func (s *Server) RefuseManagement(on bool) {
	s.mu.Lock()
	s.managing.away = on
	s.mu.Unlock()
	if on {
		s.each(func(c *conn) {
			if c.manage {
				c.kill()
			}
		})
	}
}

// ScriptManagement sets the answers to requests to the management host that passed its checks: one each, and the last
// for all further ones. A zero status stands for the answer that the host would give. With a fault that is taken, the
// request is done. Without answers the script is removed.
func (s *Server) ScriptManagement(answers ...Answer) {
	s.managing.script.set(s.managing.script.topics, "", answers)
}

// Channels lists the channels of an app.
func (s *Server) Channels(bundle string) []string {
	s.managing.mu.Lock()
	defer s.managing.mu.Unlock()
	return slices.Sorted(maps.Keys(s.managing.channels[bundle]))
}

// AddChannel makes a channel, as another client of the same app does.
func (s *Server) AddChannel(bundle string, policy int) string {
	s.managing.mu.Lock()
	defer s.managing.mu.Unlock()
	return s.managing.add(bundle, policy)
}

// DropChannels deletes all channels of an app, as Apple does when somebody disables broadcasts.
func (s *Server) DropChannels(bundle string) {
	s.managing.mu.Lock()
	defer s.managing.mu.Unlock()
	delete(s.managing.channels, bundle)
}

// add makes a channel. mu is held.
func (m *managing) add(bundle string, policy int) string {
	raw := make([]byte, 16)
	rand.Read(raw)
	channel := base64.StdEncoding.EncodeToString(raw)
	if m.channels[bundle] == nil {
		m.channels[bundle] = map[string]int{}
	}
	m.channels[bundle][channel] = policy
	return channel
}

// find is the storage policy of a channel, or Apple's reason against it.
func (m *managing) find(bundle, channel string) (policy int, reason string) {
	if reason := badChannel(channel); reason != "" {
		return 0, reason
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	policy, ok := m.channels[bundle][channel]
	if !ok {
		return 0, "ChannelNotRegistered"
	}
	return policy, ""
}

// managedPath takes a path apart: the bundle id, and channels or all-channels.
func managedPath(path string) (bundle, what string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/1/apps/")
	bundle, what, more := strings.Cut(rest, "/")
	return bundle, what, ok && more && bundle != "" && (what == "channels" || what == "all-channels")
}

// judgeManaged checks a request to the management host: the path, the method, the credentials, the app, and then what is
// asked for. If the script does not refuse it, it is done.
func (c *conn) judgeManaged(h *headers, r *Request) Answer {
	bundle, what, ok := managedPath(h.path)
	r.Topic, r.Token, r.ID = bundle, r.Channel, h.requestID
	switch {
	case !ok:
		return Fail(http.StatusNotFound, "BadPath")
	case what == "all-channels" && h.method != http.MethodGet, !slices.Contains([]string{http.MethodPost, http.MethodGet, http.MethodDelete}, h.method):
		return Fail(http.StatusMethodNotAllowed, "MethodNotAllowed")
	case h.duplicate:
		return Fail(http.StatusBadRequest, "DuplicateHeaders")
	}
	if a, ok := c.admit(r); !ok {
		return a
	}
	if r.ID != "" && !isUUID(r.ID) {
		return Fail(http.StatusBadRequest, "BadMessageId")
	}
	switch {
	case what == "all-channels":
		return c.s.managed(r, c.s.list)
	case h.method == http.MethodPost:
		return c.create(r)
	}
	policy, reason := c.s.managing.find(bundle, r.Channel)
	if reason != "" {
		return Fail(http.StatusBadRequest, reason)
	}
	if h.method == http.MethodGet {
		return c.s.managed(r, func(*Request) Answer {
			return Answer{Body: fmt.Appendf(nil, `{"message-storage-policy":%d,"push-type":"LiveActivity"}`, policy)}
		})
	}
	return c.s.managed(r, func(r *Request) Answer {
		c.s.managing.mu.Lock()
		defer c.s.managing.mu.Unlock()
		delete(c.s.managing.channels[r.Topic], r.Channel)
		return Answer{Status: http.StatusNoContent}
	})
}

// managed asks the script for an answer, and carries out the call unless the script refuses it.
func (s *Server) managed(r *Request, do func(*Request) Answer) Answer {
	a := s.managing.script.next(r)
	if a.Status != 0 || !a.Fault.taken() {
		return a
	}
	is := do(r)
	is.Fault, is.Delay, is.RetryAfter = a.Fault, a.Delay, a.RetryAfter
	return is
}

// create makes a channel.
func (c *conn) create(r *Request) Answer {
	policy, reason := readChannel(r.Payload)
	m := &c.s.managing
	m.mu.Lock()
	full := len(m.channels[r.Topic]) >= c.s.o.MaxChannels
	m.mu.Unlock()
	if reason == "" && full {
		reason = "CannotCreateChannelConfig"
	}
	if reason != "" {
		return Fail(http.StatusBadRequest, reason)
	}
	return c.s.managed(r, func(r *Request) Answer {
		return Answer{Status: http.StatusCreated, Channel: c.s.AddChannel(r.Topic, policy)}
	})
}

// readChannel reads what a new channel is to be, or returns Apple's reason against it.
func readChannel(body []byte) (policy int, reason string) {
	if len(body) == 0 {
		return 0, "PayloadEmpty"
	}
	if !json.Valid(body) {
		return 0, "BadRequestPayload"
	}
	var wanted struct {
		Policy   *int    `json:"message-storage-policy"`
		PushType *string `json:"push-type"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(&wanted)
	switch {
	case err != nil, wanted.Policy == nil, *wanted.Policy != 0 && *wanted.Policy != 1:
		return 0, "BadRequestParams"
	case wanted.PushType == nil:
		return 0, "MissingPushType"
	case *wanted.PushType != "LiveActivity":
		return 0, "InvalidPushType"
	}
	return *wanted.Policy, ""
}

// list answers with the channels of an app.
func (s *Server) list(r *Request) Answer {
	channels := s.Channels(r.Topic)
	if channels == nil {
		channels = []string{}
	}
	body, _ := json.Marshal(map[string]any{"channels": channels}) // strings always marshal
	return Answer{Body: body}
}
