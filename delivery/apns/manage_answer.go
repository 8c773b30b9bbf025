package apns

import (
	"net/http"

	"github.com/sideshow/apns2"

	"fanfare/api"
)

// done is the status of a call to the management host that did what it asked for.
var done = map[string]int{http.MethodPost: http.StatusCreated, http.MethodGet: http.StatusOK, http.MethodDelete: http.StatusNoContent}

// manageCodes is the table of the management host's answers (docs/spec/live.md). Statuses without a row go by their
// class, see manageCode.
var manageCodes = map[answer]api.Code{
	{http.StatusBadRequest, reasonChannelsFull}: api.CodeChannelsExhausted,

	{http.StatusBadRequest, reasonNoChannel}:    api.CodeNotFound,
	{http.StatusBadRequest, reasonBadChannelID}: api.CodeNotFound,

	// The configuration of the app, here or at Apple, which an operator can correct.
	{http.StatusBadRequest, reasonFeature}:                        api.CodeChannelsRefused,
	{http.StatusBadRequest, apns2.ReasonTopicDisallowed}:          api.CodeChannelsRefused,
	{http.StatusForbidden, ""}:                                    api.CodeChannelsRefused,
	{http.StatusForbidden, apns2.ReasonBadCertificate}:            api.CodeChannelsRefused,
	{http.StatusForbidden, apns2.ReasonBadCertificateEnvironment}: api.CodeChannelsRefused,
	{http.StatusForbidden, reasonTopicMismatch}:                   api.CodeChannelsRefused,
	{http.StatusForbidden, apns2.ReasonMissingProviderToken}:      api.CodeChannelsRefused,
	{http.StatusForbidden, apns2.ReasonInvalidProviderToken}:      api.CodeChannelsRefused,
	{http.StatusForbidden, apns2.ReasonExpiredProviderToken}:      api.CodeChannelsRefused, // also with a newer token

	// Only a change of fanfare can cure these.
	{http.StatusBadRequest, ""}:                            api.CodeInternal,
	{http.StatusBadRequest, reasonNoChannelID}:             api.CodeInternal,
	{http.StatusBadRequest, reasonParams}:                  api.CodeInternal,
	{http.StatusBadRequest, reasonPayload}:                 api.CodeInternal,
	{http.StatusBadRequest, reasonNoPushType}:              api.CodeInternal,
	{http.StatusBadRequest, apns2.ReasonPayloadEmpty}:      api.CodeInternal,
	{http.StatusBadRequest, apns2.ReasonBadMessageID}:      api.CodeInternal,
	{http.StatusBadRequest, apns2.ReasonInvalidPushType}:   api.CodeInternal,
	{http.StatusBadRequest, apns2.ReasonBadExpirationDate}: api.CodeInternal,
	{http.StatusBadRequest, apns2.ReasonBadPriority}:       api.CodeInternal,
	{http.StatusNotFound, ""}:                              api.CodeInternal,
	{http.StatusMethodNotAllowed, ""}:                      api.CodeInternal,
	{http.StatusRequestEntityTooLarge, ""}:                 api.CodeInternal,

	// Nothing happened.
	{http.StatusBadRequest, apns2.ReasonIdleTimeout}: api.CodeUnavailable,
	{http.StatusTooManyRequests, ""}:                 api.CodeUnavailable,
	{http.StatusServiceUnavailable, ""}:              api.CodeUnavailable,
}

// manageCode is the meaning of an answer of the management host; "" for what the call asks for. An unknown reason is
// treated by its status. An unknown 4xx is internal. Any other answer does not say whether a channel was made; to read
// or delete again changes nothing.
func manageCode(method string, status int, reason string) api.Code {
	if status == done[method] {
		return ""
	}
	if code, ok := manageCodes[answer{status, reason}]; ok {
		return code
	}
	if code, ok := manageCodes[answer{status, ""}]; ok {
		return code
	}
	switch {
	case status >= 400 && status < 500:
		return api.CodeInternal
	case method == http.MethodPost:
		return api.CodeUnknownOutcome
	}
	return api.CodeUnavailable
}
