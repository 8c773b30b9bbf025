package sales

import (
	"fanfare/store/record"
	"fanfare/store/stock"
)

// settingsRow is how settings are on record.
func settingsRow(s stock.Settings) record.Sale {
	row := record.Sale{
		ID: s.ID, Version: s.Version, StartsAt: s.StartsAt, EndsAt: s.EndsAt, PerUserLimit: s.PerUserLimit,
		HoldMS: s.HoldMS, MaxHoldMS: s.MaxHoldMS, IdleMS: s.IdleMS, Partitions: s.Partitions, Loading: s.Loading,
	}
	for _, item := range s.Items {
		row.Items = append(row.Items, record.SaleItem(item))
	}
	return row
}

// settingsOf reads settings that are on record.
func settingsOf(row *record.Sale) stock.Settings {
	s := stock.Settings{
		ID: row.ID, Version: row.Version, StartsAt: row.StartsAt, EndsAt: row.EndsAt, PerUserLimit: row.PerUserLimit,
		HoldMS: row.HoldMS, MaxHoldMS: row.MaxHoldMS, IdleMS: row.IdleMS, Partitions: row.Partitions, Loading: row.Loading,
	}
	for _, item := range row.Items {
		s.Items = append(s.Items, stock.Item(item))
	}
	return s
}

// ordersOf reads orders that are on record.
func ordersOf(rows []record.Order) []stock.Order {
	orders := make([]stock.Order, len(rows))
	for i, row := range rows {
		orders[i] = stock.Order(row)
	}
	return orders
}

// restockRows is how changes of stock are on record.
func restockRows(restocks []stock.Restocked) []record.Restock {
	rows := make([]record.Restock, len(restocks))
	for i, r := range restocks {
		rows[i] = record.Restock(r)
	}
	return rows
}

// restocksOf reads changes of stock that are on record.
func restocksOf(rows []record.Restock) []stock.Restocked {
	restocks := make([]stock.Restocked, len(rows))
	for i, r := range rows {
		restocks[i] = stock.Restocked(r)
	}
	return restocks
}
