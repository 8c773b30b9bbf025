package redisdb_test

import (
	"os"
	"testing"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestDeleteIf(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		key, ctx := "delete-if:claim", t.Context()
		if err := db.Client().Set(ctx, key, "mine", 0).Err(); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			value string
			want  int64
		}{{"another's", 0}, {"mine", 1}, {"mine", 0}} {
			cmd := redisdb.DeleteIf(ctx, key, step.value)
			if err := db.Share(ctx, redisdb.Write, cmd); err != nil || cmd.Val() != step.want {
				t.Errorf("%s: %v %v, want %d", step.value, cmd.Val(), err, step.want)
			}
		}
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, os.DirFS("."))
}
