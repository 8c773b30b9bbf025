package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putScheduleRequest struct {
	ID   string `path:"id" validate:"identifier"`
	Body api.ScheduleRequest
}

// putSchedule creates or replaces a schedule.
//
//	@Summary		Put a schedule
//	@Description	Enqueues a job at each time that the cron names: exactly one for each due time, whichever process of fanfare dies. A due time
//	@Description	at which no job could be enqueued is made up for, but only the latest one. If the queue, the cron or the time zone is
//	@Description	changed, due times up to now are not made up for. The key needs the scope `jobs`.
//	@Description
//	@Description	A time of day that the clocks skip in spring is due when it would have been without the change, and one that they show
//	@Description	twice in autumn is due the first time. With `*` as the hour, the schedule is due in every hour that passes.
//	@Tags			jobs
//	@ID				putSchedule
//	@Accept			json
//	@Produce		json
//	@Param			id			path		string				true	"The schedule's id"	example(daily-report)
//	@Param			schedule	body		api.ScheduleRequest	true	"The job, and when it is enqueued"
//	@Success		200			{object}	api.Schedule		"Replaced"
//	@Success		201			{object}	api.Schedule		"Made"
//	@Failure		422			{object}	api.Problem			"validation_failed, also for a cron that is never due"
//	@Failure		429			{object}	api.Problem			"too_many_names (there are 1,000 other schedules), rate_limited"
//	@Router			/v1/schedules/{id} [put]
func (s *server) putSchedule(ctx context.Context, in *putScheduleRequest) (*web.Reply[api.Schedule], error) {
	var err error
	if in.Body.Payload, err = shortPayload(in.Body.Payload); err != nil {
		return nil, err
	}
	schedule, created, err := s.o.Schedules.Put(ctx, in.ID, &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Put(schedule, created), nil
}

// listSchedules lists the schedules.
//
//	@Summary		List schedules
//	@Description	Lists all schedules by id, without their payloads. The key needs the scope `jobs` or `ops:read`.
//	@Tags			jobs
//	@ID				listSchedules
//	@Produce		json
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.ScheduleList	"A page"
//	@Failure		403		{object}	api.Problem			"forbidden: the key has neither the scope jobs nor the scope ops:read"
//	@Router			/v1/schedules [get]
func (s *server) listSchedules(ctx context.Context, in *web.Page) (*web.Reply[api.ScheduleList], error) {
	if err := needsOneOf(ctx, api.ScopeJobs, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	read := func(ctx context.Context, _, after string, limit int) ([]api.Schedule, error) {
		return s.o.Schedules.List(ctx, after, limit)
	}
	items, next, err := web.ReadPage(ctx, *in, read, "", func(schedule *api.Schedule) string { return schedule.ID })
	if err != nil {
		return nil, err
	}
	return web.OK(&api.ScheduleList{Items: items, Next: next}), nil
}

type scheduleRequest struct {
	ID string `path:"id" validate:"identifier"`
}

// getSchedule shows a schedule.
//
//	@Summary		Show a schedule
//	@Description	Shows a schedule with its next due time, and with the last one whose job was enqueued. The key needs the scope `jobs` or
//	@Description	`ops:read`.
//	@Tags			jobs
//	@ID				getSchedule
//	@Produce		json
//	@Param			id	path		string			true	"The schedule's id"	example(daily-report)
//	@Success		200	{object}	api.Schedule	"The schedule"
//	@Failure		403	{object}	api.Problem		"forbidden: the key has neither the scope jobs nor the scope ops:read"
//	@Failure		404	{object}	api.Problem		"not_found"
//	@Router			/v1/schedules/{id} [get]
func (s *server) getSchedule(ctx context.Context, in *scheduleRequest) (*web.Reply[api.Schedule], error) {
	if err := needsOneOf(ctx, api.ScopeJobs, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	schedule, err := s.o.Schedules.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return web.OK(schedule), nil
}

// deleteSchedule removes a schedule.
//
//	@Summary		Remove a schedule
//	@Description	No more jobs are enqueued; those in the queue stay. Removing a schedule that is not there changes nothing.
//	@Tags			jobs
//	@ID				deleteSchedule
//	@Param			id	path	string	true	"The schedule's id"	example(daily-report)
//	@Success		204	"Removed, or not there"
//	@Router			/v1/schedules/{id} [delete]
func (s *server) deleteSchedule(ctx context.Context, in *scheduleRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Schedules.Delete(ctx, in.ID)
}
