module fanfare/clients/go

go 1.26.0
