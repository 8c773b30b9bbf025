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
//	@Description	Somebody uploaded something. It is on record at once; the recent contacts of everyone who may see it follow in the
//	@Description	background. Public uploads are for everybody, `contacts` for those whom the owner calls contact, friend or family,
//	@Description	`friends` for friends alone, `family` for family alone, `private` for nobody. `uploaded_at` is now when left out, and
//	@Description	at most 5 minutes in the future. An id that is known, also of a deleted upload, changes nothing.
//	@Tags			recent contacts
//	@ID				postUpload
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			upload			body		api.UploadRequest	true	"The upload"
//	@Success		200				{object}	api.Upload			"The id was there already: the upload as it is on record"
//	@Success		202				{object}	api.Upload			"On record"
//	@Header			202				{string}	Idempotent-Replayed	"true when this is the first answer again"
//	@Failure		422				{object}	api.Problem			"validation_failed, idempotency_key_reused"
//	@Router			/v1/uploads [post]
func (s *server) postUpload(ctx context.Context, in *postUploadRequest) (*web.Reply[api.Upload], error) {
	upload, created, replayed, err := s.contacts.PostUpload(ctx, &in.Body, in.Idempotency)
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
//	@Description	Whom it is shown to now hears of it in the background; whom it is hidden from no longer sees it at once.
//	@Tags			recent contacts
//	@ID				patchUpload
//	@Accept			json
//	@Produce		json
//	@Param			id			path		string					true	"The upload"	example(photo:42)
//	@Param			visibility	body		api.VisibilityRequest	true	"Who may see it"
//	@Success		200			{object}	api.Upload				"The upload"
//	@Failure		404			{object}	api.Problem				"not_found"
//	@Router			/v1/uploads/{id} [patch]
func (s *server) patchUpload(ctx context.Context, in *patchUploadRequest) (*web.Reply[api.Upload], error) {
	upload, err := s.contacts.SetVisibility(ctx, in.ID, in.Body.Visibility)
	if err != nil {
		return nil, err
	}
	return web.OK(upload), nil
}

type deleteUploadRequest struct {
	ID string `path:"id" validate:"identifier"`
}

// deleteUpload removes an upload.
//
//	@Summary		Remove an upload
//	@Description	Nobody's recent contacts count it from here on. Removing one that is not there changes nothing; its id stays used.
//	@Tags			recent contacts
//	@ID				deleteUpload
//	@Param			id	path	string	true	"The upload"	example(photo:42)
//	@Success		204	"Removed, or not there"
//	@Router			/v1/uploads/{id} [delete]
func (s *server) deleteUpload(ctx context.Context, in *deleteUploadRequest) (*web.Reply[web.Nothing], error) {
	if err := s.contacts.DeleteUpload(ctx, in.ID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
