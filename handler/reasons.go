package handler

import "example.com/stock/internal/words"

// reasons say how a request is invalid: the domain says it in English, in an InvalidError, and knows no language.
var reasons = phrases.Foreign("reason")

// downs say why a server is down, of which a lock.DownError knows the English.
var downs = phrases.Foreign("down")

// Reason returns the reason of an InvalidError in both languages. One that the catalogue does not have is the same
// in both, which a test finds.
func Reason(english string) words.Text { return reasons.Text(english) }
