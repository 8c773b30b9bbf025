package redisdb

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ListOf reads the answer of a script that answers with a list, which is never
// empty: its first value is a status.
func ListOf(cmd redis.Cmder) ([]any, error) {
	answer, err := cmd.(*redis.Cmd).Result()
	if err != nil {
		return nil, fmt.Errorf("run %v: %w", scriptOf(cmd), err)
	}
	list, ok := answer.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("run %v: answered %v", scriptOf(cmd), answer)
	}
	return list, nil
}

// Number is a value of an answer as a number, 0 if it is none.
func Number(v any) int64 {
	n, _ := v.(int64)
	return n
}

// Text is a value of an answer as text, "" if it is none.
func Text(v any) string {
	s, _ := v.(string)
	return s
}

// NumberAt is the i-th value of an answer as a number, 0 if there is none.
func NumberAt(list []any, i int) int64 { return Number(at(list, i)) }

// TextAt is the i-th value of an answer as text, "" if there is none.
func TextAt(list []any, i int) string { return Text(at(list, i)) }

// ListAt is the i-th value of an answer as a list, nil if there is none.
func ListAt(list []any, i int) []any {
	l, _ := at(list, i).([]any)
	return l
}

func at(list []any, i int) any {
	if i >= len(list) {
		return nil
	}
	return list[i]
}
