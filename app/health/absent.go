package health

import "example.com/stock/lock/driver"

// Absent returns a Backend that is not configured and stays down. reason is the code of a driver.DownError whose text
// says which setting is missing.
func Absent(name, reason string) *Backend {
	b := New(name, nil)
	b.down = driver.NewDown(name, reason)
	return b
}
