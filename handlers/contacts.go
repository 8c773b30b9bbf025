package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putContactRequest struct {
	User    string `path:"user" validate:"identifier"`
	Contact string `path:"contact" validate:"identifier"`
	Body    api.ContactRequest
}

// putContact adds a contact.
//
//	@Summary		Add a contact
//	@Description	Makes the second user a contact of the first user, or changes the relationship. Relationships go one way: this
//	@Description	one decides which of the first user's uploads the second user may see.
//	@Tags			recent contacts
//	@ID				putContact
//	@Accept			json
//	@Produce		json
//	@Param			user			path		string				true	"The user who has the contact"	example(alice)
//	@Param			contact			path		string				true	"The contact"	example(bob)
//	@Param			relationship	body		api.ContactRequest	true	"The relationship"
//	@Success		200				{object}	api.Contact			"Existed already: the contact as it is now"
//	@Success		201				{object}	api.Contact			"Added"
//	@Router			/v1/users/{user}/contacts/{contact} [put]
func (s *server) putContact(ctx context.Context, in *putContactRequest) (*web.Reply[api.Contact], error) {
	contact, created, err := s.o.Contacts.PutContact(ctx, in.User, in.Contact, &in.Body)
	return web.Put(contact, created), err
}

type putContactsRequest struct {
	User        string `path:"user" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.ContactBatchRequest
}

// putContacts adds many contacts.
//
//	@Summary		Add many contacts
//	@Description	For moving in from another system: makes 1 to 1,000 users contacts of one user, each as
//	@Description	`PUT /v1/users/{user}/contacts/{contact}` does, and either all or none. The errors name each wrong contact by its index,
//	@Description	such as `contacts[3].relationship`. A contact may be in the batch only once. Not for user tokens.
//	@Tags			recent contacts
//	@ID				putContacts
//	@Accept			json
//	@Param			user			path	string					true	"The user who has the contacts"	example(alice)
//	@Param			Idempotency-Key	header	string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			batch			body	api.ContactBatchRequest	true	"The contacts"
//	@Success		204				"All are contacts"
//	@Header			204				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		413				{object}	api.Problem	"payload_too_large: the body may have at most 1 MiB"
//	@Failure		422				{object}	api.Problem	"validation_failed (also for a contact that is in the batch twice), idempotency_key_reused"
//	@Router			/v1/users/{user}/contacts/batch [post]
func (s *server) putContacts(ctx context.Context, in *putContactsRequest) (*web.Reply[web.Nothing], error) {
	replayed, err := s.o.Contacts.PutContacts(ctx, in.User, in.Body.Contacts, in.Idempotency)
	return web.NoContent().Replayed(replayed), err
}

type deleteContactRequest struct {
	User    string `path:"user" validate:"identifier"`
	Contact string `path:"contact" validate:"identifier"`
}

// deleteContact removes a contact.
//
//	@Summary		Remove a contact
//	@Description	Removing a contact that does not exist changes nothing. The contact in the other direction, if there is one,
//	@Description	stays.
//	@Tags			recent contacts
//	@ID				deleteContact
//	@Param			user	path	string	true	"The user who has the contact"	example(alice)
//	@Param			contact	path	string	true	"The contact"	example(bob)
//	@Success		204		"Removed, or did not exist"
//	@Router			/v1/users/{user}/contacts/{contact} [delete]
func (s *server) deleteContact(ctx context.Context, in *deleteContactRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Contacts.DeleteContact(ctx, in.User, in.Contact)
}

// listContacts lists a user's contacts.
//
//	@Summary	List a user's contacts
//	@Tags		recent contacts
//	@ID			listContacts
//	@Produce	json
//	@Param		user	path		string			true	"The user"	example(alice)
//	@Param		limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param		cursor	query		string			false	"The `next` of the previous page"
//	@Success	200		{object}	api.ContactList	"A page, by name"
//	@Router		/v1/users/{user}/contacts [get]
func (s *server) listContacts(ctx context.Context, in *userPageRequest) (*web.Reply[api.ContactList], error) {
	name := func(c *api.Contact) string { return c.Contact }
	items, next, err := web.ReadPage(ctx, in.Page, s.o.Contacts.Contacts, in.User, name)
	return web.OK(&api.ContactList{Items: items, Next: next}), err
}

type recentContactsRequest struct {
	User string `path:"user" validate:"identifier"`
	// Limit has its default and its largest value from FANFARE_CONTACTS_MAX.
	Limit *int64 `query:"limit" validate:"omitempty,min=1"`
}

// getRecentContacts lists the contacts that uploaded something most recently.
//
//	@Summary		List the most recently active contacts
//	@Description	Lists the contacts whose uploads are the most recent, newest first. Only uploads that this user may see count.
//	@Description	The list has exactly as many contacts as asked for, unless the user has fewer that uploaded something.
//	@Description	`complete` is false only while the user's index is being rebuilt and contacts may be missing: ask again soon.
//	@Description	The cost does not depend on how many contacts the user has. A `limit` above FANFARE_CONTACTS_MAX (120) is
//	@Description	refused with 422, and the answer names the largest value.
//	@Tags			recent contacts
//	@ID				getRecentContacts
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(alice)
//	@Param			limit	query		int					false	"Number of contacts; at most FANFARE_CONTACTS_MAX"	minimum(1)	maximum(127)	default(10)
//	@Success		200		{object}	api.RecentContacts	"The contacts"
//	@Router			/v1/users/{user}/recent-contacts [get]
func (s *server) getRecentContacts(ctx context.Context, in *recentContactsRequest) (*web.Reply[api.RecentContacts], error) {
	limit := 0
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	recent, err := s.o.Contacts.RecentContacts(ctx, in.User, limit)
	return web.OK(recent), err
}

type recentUploadsRequest struct {
	User  string `path:"user" validate:"identifier"`
	Limit int64  `query:"limit" default:"10" validate:"min=1,max=500"`
}

// getRecentUploads lists the uploads of the most recently active contact.
//
//	@Summary		List the newest uploads of the most recently active contact
//	@Description	Lists the uploads that a home page shows first. Only uploads that this user may see are listed. If the user has
//	@Description	no recent contact, `contact` is null.
//	@Tags			recent contacts
//	@ID				getRecentUploads
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(alice)
//	@Param			limit	query		int					false	"Number of uploads"	minimum(1)	maximum(500)	default(10)
//	@Success		200		{object}	api.RecentUploads	"The contact and the uploads, newest first"
//	@Router			/v1/users/{user}/recent-contacts/uploads [get]
func (s *server) getRecentUploads(ctx context.Context, in *recentUploadsRequest) (*web.Reply[api.RecentUploads], error) {
	uploads, err := s.o.Contacts.RecentUploads(ctx, in.User, int(in.Limit))
	return web.OK(uploads), err
}

// rebuildRecentContacts builds a user's index anew.
//
//	@Summary		Rebuild a user's recent contacts
//	@Description	Builds the index again from SQL, in the background. This is needed only after contacts were written into the
//	@Description	database by hand: an index that is lost or too old is rebuilt automatically. The id is that of an operation
//	@Description	(`GET /v1/operations/{id}`). Calls that come while a rebuild of this user waits get its id.
//	@Tags			recent contacts
//	@ID				rebuildRecentContacts
//	@Produce		json
//	@Param			user			path		string		true	"The user"	example(alice)
//	@Param			Idempotency-Key	header		string		false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Success		202				{object}	api.Rebuild	"The rebuild will be done"
//	@Header			202				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Header			202				{string}	Location			"The URL of the operation"
//	@Failure		422				{object}	api.Problem	"validation_failed, idempotency_key_reused"
//	@Router			/v1/users/{user}/recent-contacts/rebuild [post]
func (s *server) rebuildRecentContacts(ctx context.Context, in *userOnceRequest) (*web.Reply[api.Rebuild], error) {
	rebuild, replayed, err := s.o.Contacts.Rebuild(ctx, in.User, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.Accepted(rebuild).At(operationPath(rebuild.ID)).Replayed(replayed), nil
}
