package web

import "net/http"

// answer is the writer of a request's answer. It remembers what metrics and log
// tell of it.
type answer struct {
	http.ResponseWriter
	status, size int // status 0: nothing was written yet
}

// WriteHeader sends the head; only the first counts.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK { // what is below is followed by another
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (a *answer) Write(text []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(text)
	a.size += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
