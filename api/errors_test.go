package api_test

import (
	"slices"
	"strings"
	"testing"

	"fanfare/api"
)

// A program that follows `retryable` repeats these refusals, and no others.
func TestRetryableCodes(t *testing.T) {
	t.Parallel()
	var retryable []api.Code
	for _, code := range api.Codes() {
		if api.MeaningOf(code).Retryable {
			retryable = append(retryable, code)
		}
	}
	want := []api.Code{
		api.CodeRequestTimeout, api.CodeChannelsExhausted, api.CodeLockHeld, api.CodeNotStarted, api.CodeOwed, api.CodeSoldOut, api.CodeQueueFull, api.CodeRateLimited, api.CodeTooManyNames,
		api.CodeInternal, api.CodeOverloaded, api.CodeUnavailable, api.CodeUnknownOutcome,
	}
	if !slices.Equal(retryable, want) {
		t.Errorf("retryable: %v, want %v", retryable, want)
	}
}

// No code of 0.1.0 goes away or gets another status.
func TestCodesStay(t *testing.T) {
	t.Parallel()
	for status, codes := range map[int]string{
		400: "invalid_json invalid_request", 401: "unauthorized", 403: "forbidden not_a_member", 404: "not_found sale_not_found",
		405: "method_not_allowed", 408: "request_timeout", 409: "bounds conflict limit_reached not_held not_started sold_out",
		410: "ended", 412: "version_mismatch", 413: "payload_too_large", 415: "unsupported_media_type", 421: "misdirected_request",
		422: "already_expired idempotency_key_reused unknown_app unknown_event_type validation_failed", 429: "rate_limited",
		500: "internal", 503: "overloaded unavailable unknown_outcome",
	} {
		for code := range strings.FieldsSeq(codes) {
			if !slices.Contains(api.Codes(), api.Code(code)) || api.MeaningOf(api.Code(code)).Status != status {
				t.Errorf("%s is gone, or not %d", code, status)
			}
		}
	}
}
