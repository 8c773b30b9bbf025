package sales

// restoreLock is the name of the locks, one for each sale, that give the right to restore the sale.
const restoreLock = "sale-restore"
