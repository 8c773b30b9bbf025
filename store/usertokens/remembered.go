package usertokens

import (
	"crypto/sha256"
	"sync"

	"fanfare/api"
)

// generation is how many tokens one generation remembers; there are two.
const generation = 1 << 16

// remembered holds tokens that were verified, by their hash. When the newer generation is full
// it becomes the older one. Tokens of the previous older generation are forgotten, unless they
// were used again.
type remembered struct {
	mu           sync.RWMutex
	most         int
	newer, older map[[sha256.Size]byte]*api.User
}

// get is the user of a token; nil: the token is not remembered.
func (r *remembered) get(hash [sha256.Size]byte) *api.User {
	r.mu.RLock()
	u, ok := r.newer[hash]
	if ok {
		r.mu.RUnlock()
		return u
	}
	u, ok = r.older[hash]
	r.mu.RUnlock()
	if ok {
		r.put(hash, u)
	}
	return u
}

func (r *remembered) put(hash [sha256.Size]byte, u *api.User) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newer == nil || len(r.newer) >= r.most {
		r.newer, r.older = make(map[[sha256.Size]byte]*api.User), r.newer
	}
	r.newer[hash] = u
}
