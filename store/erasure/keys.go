package erasure

// Keys matches the keys of Redis that have to be looked through for a user because nothing lists
// them by user: chats, marks of events, records of sales, and tickets.
const Keys = "ff:{[cqst]*}:*"
