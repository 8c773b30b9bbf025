package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type postUploadRequest struct {
	Idempotency api.Idempotency
	Body        api.UploadRequest
}

// postUpload announces an upload.
//
//	@Summary		Announce an upload
//	@Description	Records that a user uploaded something. The upload is on record at once. The recent contacts of the users who
//	@Description	may see it follow in the background. `visibility` is `public` (everybody may see it), `contacts` (users whom the
//	@Description	owner has as contact, friend or family), `friends` (friends only), `family` (family only) or `private` (nobody).
//	@Description	`uploaded_at` is now if it is left out, and at most 5 minutes in the future. An id that was used before changes
//	@Description	nothing, even if that upload was deleted less than `FANFARE_DELETED_RETENTION` (30 days) ago.
//	@Tags			recent contacts
//	@ID				postUpload
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			upload			body		api.UploadRequest	true	"The upload"
//	@Success		200				{object}	api.Upload			"The id exists already: the upload as it is on record"
//	@Success		202				{object}	api.Upload			"On record"
//	@Header			202				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		422				{object}	api.Problem			"validation_failed, idempotency_key_reused"
//	@Router			/v1/uploads [post]
func (s *server) postUpload(ctx context.Context, in *postUploadRequest) (*web.Reply[api.Upload], error) {
	upload, created, replayed, err := s.o.Contacts.PostUpload(ctx, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	if !created {
		return web.OK(upload).Replayed(replayed), nil
	}
	return web.Accepted(upload).Replayed(replayed), nil
}

type patchUploadRequest struct {
	ID   string `path:"id" validate:"identifier"`
	Body api.VisibilityRequest
}

// patchUpload changes who may see an upload.
//
//	@Summary		Change who may see an upload
//	@Description	Users who may no longer see the upload lose it at once. For users who may see it now it counts a moment later.
//	@Tags			recent contacts
//	@ID				patchUpload
//	@Accept			json
//	@Produce		json
//	@Param			id			path		string					true	"The upload"	example(photo:42)
//	@Param			visibility	body		api.VisibilityRequest	true	"The new visibility"
//	@Success		200			{object}	api.Upload				"The upload"
//	@Failure		404			{object}	api.Problem				"not_found"
//	@Router			/v1/uploads/{id} [patch]
func (s *server) patchUpload(ctx context.Context, in *patchUploadRequest) (*web.Reply[api.Upload], error) {
	upload, err := s.o.Contacts.SetVisibility(ctx, in.ID, in.Body.Visibility)
	return web.OK(upload), err
}

// deleteUpload removes an upload.
//
//	@Summary		Remove an upload
//	@Description	From now on the upload counts in nobody's recent contacts. Removing an upload that does not exist changes
//	@Description	nothing. The id can be used again after `FANFARE_DELETED_RETENTION` (30 days).
//	@Tags			recent contacts
//	@ID				deleteUpload
//	@Param			id	path	string	true	"The upload"	example(photo:42)
//	@Success		204	"Removed, or did not exist"
//	@Router			/v1/uploads/{id} [delete]
func (s *server) deleteUpload(ctx context.Context, in *idRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Contacts.DeleteUpload(ctx, in.ID)
}
