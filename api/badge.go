package api

// MaxBadge is the highest badge.
const MaxBadge = 99_999

// Badge is the number on the icon of a user's app.
type Badge struct {
	// Count is the number, 0 to 99,999.
	Count int64 `json:"count" example:"3"`
	// Version rises with each change. 0: there is no badge. It was never changed, or not for a year, or Redis has lost it.
	Version int64 `json:"version" example:"1767366245000000"`
	// Since is when the badge began at 0. A later time than before says that Redis had lost the badge.
	Since *Time `json:"since,omitempty"`
}

// BadgeRequest is the body of PUT /v1/users/{user}/badge.
type BadgeRequest struct {
	// Count is the number, 0 to 99,999.
	Count *int64 `json:"count" validate:"required,min=0,max=99999" example:"3"`
	// Clear shows the number on the user's devices of APNs, without a text, at most once a minute.
	Clear bool `json:"clear,omitempty"`
}

// BadgeChange is the body of POST /v1/users/{user}/badge.
type BadgeChange struct {
	// Delta is what is added; the badge stays between 0 and 99,999.
	Delta *int64 `json:"delta" validate:"required,min=-99999,max=99999" example:"-1"`
}

// BadgeMode says which number a notification shows on the icon of the app.
type BadgeMode string

// The modes of an event type.
const (
	BadgeNone   BadgeMode = "none"
	BadgeCount  BadgeMode = "count"
	BadgeAdd    BadgeMode = "add"
	BadgeUnread BadgeMode = "unread"
)

// BadgeEventType is the type of the events with which PUT /v1/users/{user}/badge shows a number. An event type of that name
// on record does not change them.
const BadgeEventType = "fanfare.badge"
