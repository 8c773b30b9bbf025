package web

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"fanfare/api"
)

// limitBody gives the body of a request the request's time to arrive, also if nobody reads it: the
// server reads the rest before it answers. So a caller who sends a byte a second is not waited for.
func (s *Server) limitBody(w http.ResponseWriter, r *http.Request, info *requestInfo) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(info.started.Add(s.o.RequestTimeout)) // not all can, in tests
	}
}

// readBody reads a JSON body of at most limit bytes, whether its length was announced or not. It
// returns nil for an empty body if the body may be left out.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, limit int64, optional bool) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	unannounced := optional && r.ContentLength != 0 && r.Header.Get("Content-Type") == ""
	if !optional || (r.ContentLength != 0 && !unannounced) {
		if err := checkMedia(r.Header); err != nil {
			return nil, err
		}
	}
	body, err := s.readAll(w, r, limit)
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0 && optional:
		return nil, nil
	case unannounced:
		return nil, checkMedia(r.Header)
	case len(body) == 0:
		return nil, invalidJSON("", "is empty; this call takes a JSON object")
	}
	return body, nil
}

// checkMedia refuses bodies that are not JSON in UTF-8, or that have a Content-Encoding.
func checkMedia(h http.Header) error {
	if sent := h.Get("Content-Type"); sent != "application/json" {
		media, params, err := mime.ParseMediaType(sent)
		if err != nil || media != "application/json" {
			return api.Errorf(api.CodeUnsupportedMedia, "the body must be sent as Content-Type: application/json")
		}
		if charset := strings.ToLower(params["charset"]); charset != "" && charset != "utf-8" && charset != "utf8" {
			return api.Errorf(api.CodeUnsupportedMedia, "JSON is sent in UTF-8, not in another charset")
		}
	}
	if coding := h.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return api.Errorf(api.CodeUnsupportedMedia, "the body must be sent without Content-Encoding")
	}
	return nil
}

func tooLarge(limit int64) error {
	return api.Errorf(api.CodePayloadTooLarge, "the body may have at most %d bytes", limit).With("max_bytes", limit)
}

// readAll reads the whole body, which must arrive in time (limitBody).
func (s *Server) readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	in := &incoming{admission: s.admission, info: infoOf(r.Context()), size: r.ContentLength, limit: limit}
	from := r.Body
	if in.size < 0 {
		from = http.MaxBytesReader(w, r.Body, limit)
	}
	body, err := in.read(from)
	var over *http.MaxBytesError
	switch {
	case err == nil:
		// After an error the deadline stays, because otherwise the server would go on reading.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case api.CodeOf(err) == api.CodeOverloaded:
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return nil, api.Errorf(api.CodeRequestTimeout, "the body did not arrive in time").Because(err)
	default:
		return nil, api.Errorf(api.CodeInvalidRequest, "the body could not be read to its end").Because(err)
	}
}
