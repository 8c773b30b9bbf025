package api_test

import (
	"errors"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// After a change an error does not say that nothing happened. Others stay as they are.
func TestAfterAChange(t *testing.T) {
	t.Parallel()
	for code, want := range map[api.Code]api.Code{
		api.CodeUnavailable: api.CodeUnknownOutcome, api.CodeOverloaded: api.CodeUnknownOutcome, api.CodeUnknownOutcome: api.CodeUnknownOutcome, api.CodeNotFound: api.CodeNotFound,
	} {
		cause := api.Errorf(code, "x")
		cause.RetryAfter = time.Second
		err := api.AfterAChange(cause)
		storetest.WantCode(t, err, want)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.RetryAfter != time.Second || !errors.Is(err, cause) {
			t.Errorf("%s: %+v", code, err)
		}
	}
	internal := errors.New("a bug")
	if api.AfterAChange(internal) != internal || api.AfterAChange(nil) != nil {
		t.Error("another error changed")
	}
}
