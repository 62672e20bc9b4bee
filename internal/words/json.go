package words

import "encoding/json"

// In JSON, which programs read, a text is the English one.

// MarshalJSON writes the English text.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.EN) }

// UnmarshalJSON reads a text that MarshalJSON wrote. It is in English for readers of both languages.
func (t *Text) UnmarshalJSON(from []byte) error {
	var text string
	if err := json.Unmarshal(from, &text); err != nil {
		return err
	}
	*t = Same(text)
	return nil
}
