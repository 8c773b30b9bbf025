package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// listApps lists the apps.
//
//	@Summary		List the apps
//	@Description	Lists the apps of push services: those that the server that answers is configured with or has met, and those that are
//	@Description	paused or have notifications waiting, on any server. While an app is paused, its notifications are set aside, and
//	@Description	one of them is tried every `FANFARE_APP_PROBE_INTERVAL`. A topic of `*` stands for all topics of a key.
//	@Tags			operations
//	@ID				listApps
//	@Produce		json
//	@Success		200	{object}	api.AppList	"The apps"
//	@Router			/v1/apps [get]
func (s *server) listApps(ctx context.Context, _ *web.Nothing) (*web.Reply[api.AppList], error) {
	all, err := s.o.Apps(ctx)
	return web.OK(&api.AppList{Items: all}), err
}

type probeAppsRequest struct {
	Topic       string `path:"topic" validate:"identifier"`
	Idempotency api.Idempotency
}

// probeApps has paused apps try one notification each.
//
//	@Summary		Let the paused apps of a topic try now
//	@Description	Each paused app of the topic tries one notification within 2 s, if one waits. If the push service takes it, the app
//	@Description	resumes. Apps that are not paused are left alone. The call is logged.
//	@Tags			operations
//	@ID				probeApps
//	@Produce		json
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			topic			path		string				true	"The topic of the apps"
//	@Success		202				{object}	api.ProbeAccepted	"The paused apps will try"
//	@Header			202				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem			"not_found: the list of apps has none of this topic"
//	@Failure		422				{object}	api.Problem			"validation_failed, idempotency_key_reused"
//	@Router			/v1/apps/{topic}/probe [post]
func (s *server) probeApps(ctx context.Context, in *probeAppsRequest) (*web.Reply[api.ProbeAccepted], error) {
	all, err := s.o.Apps(ctx)
	if err != nil {
		return nil, err
	}
	known, paused := false, []string{}
	for i := range all {
		if all[i].Topic != in.Topic {
			continue
		}
		if known = true; all[i].State == api.AppPaused {
			paused = append(paused, all[i].App)
		}
	}
	if !known {
		return nil, api.Errorf(api.CodeNotFound, "there is no app of the topic %s", in.Topic)
	}
	replayed, err := s.o.Pauses.AskProbe(ctx, in.Idempotency, paused...)
	if err != nil {
		return nil, err
	}
	for _, app := range paused {
		if !replayed {
			s.web.LogChange(ctx, "apps.probe", app)
		}
	}
	return web.Accepted(&api.ProbeAccepted{Topic: in.Topic}).Replayed(replayed), nil
}
