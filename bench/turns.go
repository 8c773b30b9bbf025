package main

import (
	"context"
	"fmt"
	"slices"
)

// sample is what one round of one side found, by name.
type sample map[string]float64

// side is one of those that take turns.
type side struct {
	name string
	run  func(context.Context) (sample, error)
}

// medians holds the median of each figure of each side.
type medians map[string]float64

// of is a figure of a side; one that is missing is 0, which no row accepts.
func (m medians) of(side, figure string) float64 { return m[side+" "+figure] }

// turns lets the sides measure one after the other, round by round, so that
// whatever else the machine does meets all of them. A round before the first
// warms up.
func (w *world) turns(ctx context.Context, sides ...side) (medians, error) {
	all := map[string][]float64{}
	for round := range w.rounds + 1 {
		for _, s := range sides {
			got, err := s.run(ctx)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			for figure, v := range got {
				if round > 0 {
					all[s.name+" "+figure] = append(all[s.name+" "+figure], v)
				}
			}
		}
	}
	m := medians{}
	for name, values := range all {
		m[name] = median(values)
	}
	return m, nil
}

// median of some rounds, of two in the middle their mean.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
