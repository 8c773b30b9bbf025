package handlers

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
)

// getStats sums up the queues.
//
//	@Summary		Show figures of the queues
//	@Description	Shows the depth, the oldest age, the work in flight, the retries and the dead letters of every queue, and how
//	@Description	many notifications a second this process delivered over the last minute. The backlogs of contacts and sales are
//	@Description	left out as long as SQL or Redis cannot be read.
//	@Tags			operations
//	@ID				getStats
//	@Produce		json
//	@Success		200	{object}	api.Stats	"The figures"
//	@Router			/v1/stats [get]
func (s *server) getStats(ctx context.Context, _ *web.Nothing) (*web.Reply[api.Stats], error) {
	stats, err := s.readStats(ctx)
	return web.OK(stats), err
}

func (s *server) readStats(ctx context.Context) (*api.Stats, error) {
	queues, err := statsOf(ctx, s.o.Queues)
	if err != nil {
		return nil, err
	}
	stats := &api.Stats{Queues: queues, DeliveredPerSecond: s.o.DeliveredPerSecond()}
	readOwed(ctx, s.o.Contacts, s.o.Sales, stats)
	return stats, nil
}

type seriesRequest struct {
	Minutes int64 `query:"minutes" default:"60" validate:"min=1,max=1440"`
}

// getSeries shows what was done minute by minute.
//
//	@Summary		Show the last minutes
//	@Description	Shows for each minute that is over what all processes together did in it, the oldest first. A process writes its
//	@Description	counts once a minute, so the last minute may be incomplete for a few seconds. Minutes in which no process was
//	@Description	running, or could write, are left out. A process that stops by itself writes the rest of its counts; one that is
//	@Description	killed loses those of its last minute. Minutes follow Redis' clock and are kept for a day.
//	@Tags			operations
//	@ID				getStatsSeries
//	@Produce		json
//	@Param			minutes	query		int				false	"How many minutes to go back"	minimum(1)	maximum(1440)	default(60)
//	@Success		200		{object}	api.StatsSeries	"The minutes"
//	@Router			/v1/stats/series [get]
func (s *server) getSeries(ctx context.Context, in *seriesRequest) (*web.Reply[api.StatsSeries], error) {
	minutes, err := s.o.Series.Minutes(ctx, int(in.Minutes))
	return web.OK(&api.StatsSeries{Items: minutes}), err
}

type streamStatsRequest struct {
	lastEvent // has no effect here: a stream begins with the present figures
}

// streamStats sends the figures of the queues.
//
//	@Summary		Follow the figures of the queues
//	@Description	Sends server-sent events: `event: stats` with what `GET /v1/stats` answers, at once and then every 2 s. The process
//	@Description	reads the figures once for all its streams. While Redis cannot be read, the stream stays open and each try sends
//	@Description	`event: unavailable` instead; the figures come back by themselves. A stream ends within 10 s after its API key was
//	@Description	revoked.
//	@Tags			operations
//	@ID				streamStats
//	@Produce		text/event-stream
//	@Param			Last-Event-ID	header	string	false	"Accepted and ignored: a stream begins with the present figures"
//	@Param			last_event_id	query	string	false	"Accepted and ignored: a stream begins with the present figures"
//	@Success		200	{object}	api.StatsEvents	"The events, until either side ends them"
//	@Failure		503	{object}	api.Problem		"overloaded: the process has FANFARE_MAX_STREAMS open; unavailable"
//	@Router			/v1/stats/stream [get]
func (s *server) streamStats(ctx context.Context, _ *streamStatsRequest, out *web.Stream) error {
	for opened := false; ; opened = true {
		var now figures
		read := make(chan struct{})
		go func() { defer close(read); now = s.figures.Get(ctx) }()
		if !opened {
			select {
			case <-read:
				if now.err != nil {
					return now.err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-s.web.Closing(): // which ends the stream
			}
		}
		if err := out.Await(ctx, read); err != nil {
			return err
		}
		if now.err != nil && !api.Passing(now.err) {
			return now.err
		}
		if err := out.Send(now.event); err != nil {
			return err
		}
		due := make(chan struct{})
		timer := time.AfterFunc(figuresEvery, func() { close(due) })
		if err := out.Await(ctx, due); err != nil {
			timer.Stop()
			return err
		}
	}
}

// figuresEvery is how often a stream sends the figures of the queues.
const figuresEvery = 2 * time.Second

// figures are what all streams of figures send for one reading. The event says so if they could not be read.
type figures struct {
	event web.StreamEvent
	err   error
}

// readFigures reads the figures and encodes them.
func (s *server) readFigures(ctx context.Context) figures {
	ctx, cancel := s.web.Briefly(ctx)
	defer cancel()
	stats, err := s.readStats(ctx)
	if err != nil {
		return figures{web.StreamEvent{Name: "unavailable", Data: &api.Unavailable{Code: api.CodeOf(err)}}, err}
	}
	text, err := web.Encode(stats)
	return figures{web.StreamEvent{Name: "stats", Data: web.Encoded(text)}, err}
}
