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
	newer, older map[[sha256.Size]byte]verified
}

// verified is a token's user, and the key that verified the token.
type verified struct {
	user *api.User
	key  *key
}

func (r *remembered) get(hash [sha256.Size]byte) (verified, bool) {
	r.mu.RLock()
	v, ok := r.newer[hash]
	if ok {
		r.mu.RUnlock()
		return v, true
	}
	v, ok = r.older[hash]
	r.mu.RUnlock()
	if ok {
		r.put(hash, v)
	}
	return v, ok
}

func (r *remembered) put(hash [sha256.Size]byte, v verified) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newer == nil || len(r.newer) >= r.most {
		r.newer, r.older = make(map[[sha256.Size]byte]verified), r.newer
	}
	r.newer[hash] = v
}
