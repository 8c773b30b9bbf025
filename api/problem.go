package api

// Problem is the body of every error answer: an RFC 9457 document with a code for machines. Some codes
// have additional members, such as max_bytes, scope or available.
type Problem struct {
	// Type is "urn:fanfare:problem:" and the code.
	Type  string `json:"type" example:"urn:fanfare:problem:validation_failed"`
	Title string `json:"title" example:"The request breaks a rule"`
	// Status repeats the HTTP status.
	Status int `json:"status" example:"422"`
	// Detail says in a sentence what went wrong with this request.
	Detail string `json:"detail,omitempty" example:"type must be 1 to 128 bytes of A-Z a-z 0-9 . _ : @ -"`
	// Code is stable: programs can branch on it, but not on the sentences.
	Code Code `json:"code" example:"validation_failed"`
	// Retryable says whether the same request, unchanged, may succeed later. It follows from the code.
	Retryable bool `json:"retryable" example:"false"`
	// RequestID is the id under which the server's log has the request.
	RequestID string `json:"request_id" example:"QV7Z2M6JKX4T3YRN5WAHBCDEFG"`
	// Errors names every field that broke a rule.
	Errors []FieldError `json:"errors,omitempty"`
	// RetryAfterMS is how long to wait before the same request may succeed.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty" example:"1000"`
}
