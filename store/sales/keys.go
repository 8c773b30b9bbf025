package sales

// restoreLock is the name of the locks, one per sale, that give the right to
// bring a sale back.
const restoreLock = "sale-restore"
