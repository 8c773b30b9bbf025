package api

import "time"

// The limits of the recent contacts.
const (
	MaxContactBatch     = 1000    // contacts in one POST /v1/users/{user}/contacts/batch
	MaxContactBatchBody = 1 << 20 // bytes of one

	MaxUploadAhead  = 5 * time.Minute // how far in the future an upload may be
	DefaultIndexMax = 120             // FANFARE_CONTACTS_MAX
	DefaultIndexMin = 10              // FANFARE_CONTACTS_MIN
	// LargestIndexMax is the largest FANFARE_CONTACTS_MAX. An index has one entry more before it is
	// trimmed, and 128 entries are the most that Redis stores compactly.
	LargestIndexMax = 127
)

// Relationship is what a contact is to a user.
type Relationship string

// The relationships.
const (
	RelationContact Relationship = "contact"
	RelationFriend  Relationship = "friend"
	RelationFamily  Relationship = "family"
)

// Visibility says who may see an upload.
type Visibility string

// The visibilities. VisiblePublic is for everybody, VisibleContacts for users who are contact, friend
// or family to the owner, VisibleFriends for friends only, VisibleFamily for family only, and
// VisiblePrivate for nobody.
const (
	VisiblePublic   Visibility = "public"
	VisibleContacts Visibility = "contacts"
	VisibleFriends  Visibility = "friends"
	VisibleFamily   Visibility = "family"
	VisiblePrivate  Visibility = "private"
)

// Shows reports whether a viewer may see an upload. r is what the viewer is to the owner; "" means that
// the viewer is not a contact of the owner.
func (v Visibility) Shows(r Relationship) bool {
	switch v {
	case VisiblePublic:
		return true
	case VisibleContacts:
		return r != ""
	case VisibleFriends:
		return r == RelationFriend
	case VisibleFamily:
		return r == RelationFamily
	case VisiblePrivate:
	}
	return false
}

// Widens reports whether changing old to v lets someone see the upload who could not see it before.
func (v Visibility) Widens(old Visibility) bool {
	for _, r := range []Relationship{"", RelationContact, RelationFriend, RelationFamily} {
		if v.Shows(r) && !old.Shows(r) {
			return true
		}
	}
	return false
}

// ContactRequest is the body of PUT /v1/users/{user}/contacts/{contact}.
type ContactRequest struct {
	Relationship Relationship `json:"relationship" validate:"required,oneof=contact friend family" enums:"contact,friend,family" example:"friend"`
}

// Contact is one of a user's contacts.
type Contact struct {
	Contact      string       `json:"contact" validate:"required,identifier" example:"bob"`
	Relationship Relationship `json:"relationship" validate:"required,oneof=contact friend family" enums:"contact,friend,family" example:"friend"`
}

// ContactBatchRequest is the body of POST /v1/users/{user}/contacts/batch. No contact is named twice.
type ContactBatchRequest struct {
	Contacts []Contact `json:"contacts" validate:"required,min=1,max=1000,dive"`
}

// ContactList is the answer of GET /v1/users/{user}/contacts.
type ContactList struct {
	Items []Contact `json:"items"`
	Next  string    `json:"next,omitempty"`
}

// UploadRequest is the body of POST /v1/uploads. UploadedAt is now if absent, and at most
// MaxUploadAhead in the future.
type UploadRequest struct {
	ID         string     `json:"id" validate:"required,identifier" example:"photo:42"`
	Owner      string     `json:"owner" validate:"required,identifier" example:"alice"`
	Visibility Visibility `json:"visibility" validate:"required,oneof=public contacts friends family private" enums:"public,contacts,friends,family,private" example:"friends"`
	UploadedAt *Time      `json:"uploaded_at,omitempty" swaggertype:"string" format:"date-time"`
}

// VisibilityRequest is the body of PATCH /v1/uploads/{id}.
type VisibilityRequest struct {
	Visibility Visibility `json:"visibility" validate:"required,oneof=public contacts friends family private" enums:"public,contacts,friends,family,private" example:"public"`
}

// Upload is an upload on record.
type Upload struct {
	ID         string     `json:"id" example:"photo:42"`
	Owner      string     `json:"owner" example:"alice"`
	Visibility Visibility `json:"visibility" enums:"public,contacts,friends,family,private"`
	UploadedAt Time       `json:"uploaded_at" swaggertype:"string" format:"date-time"`
}

// RecentContact is a contact with the time of the newest upload that the
// viewer may see.
type RecentContact struct {
	Contact      string       `json:"contact" example:"bob"`
	Relationship Relationship `json:"relationship" enums:"contact,friend,family"`
	LastUploadAt Time         `json:"last_upload_at" swaggertype:"string" format:"date-time"`
}

// RecentContacts is the answer of GET /v1/users/{user}/recent-contacts. Complete is false only while
// the index is being rebuilt and contacts may be missing.
type RecentContacts struct {
	Items    []RecentContact `json:"items"`
	Complete bool            `json:"complete"`
}

// RecentUploads is the answer of GET .../recent-contacts/uploads: the newest
// uploads of the first of the recent contacts. Contact is null if the user has no recent contacts.
type RecentUploads struct {
	Contact *string        `json:"contact" extensions:"x-nullable"`
	Items   []RecentUpload `json:"items"`
}

// RecentUpload is one of the uploads of RecentUploads.
type RecentUpload struct {
	ID         string     `json:"id"`
	UploadedAt Time       `json:"uploaded_at" swaggertype:"string" format:"date-time"`
	Visibility Visibility `json:"visibility" enums:"public,contacts,friends,family,private"`
}

// Rebuild is the answer of POST .../recent-contacts/rebuild: the id of its operation.
type Rebuild struct {
	ID string `json:"id"`
}

// ContactsStats says how far the index of recent contacts lags behind SQL: the number of changes
// that it does not have yet, and the age of the oldest.
type ContactsStats struct {
	Pending int64 `json:"pending"`
	LagMS   int64 `json:"lag_ms"`
}
