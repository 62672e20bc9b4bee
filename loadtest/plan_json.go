package loadtest

import (
	"bytes"
	"encoding/json"
	"time"
)

// planText is how durations look in JSON: "5s".
type planText struct {
	*bare
	Duration string `json:"duration,omitempty"`
	RampUp   string `json:"ramp_up,omitempty"`
	WarmUp   string `json:"warm_up,omitempty"`
	Wait     string `json:"wait,omitempty"`
	Timeout  string `json:"timeout"`
}

type bare Plan // without the methods

// MarshalJSON writes durations as "5s".
func (p Plan) MarshalJSON() ([]byte, error) {
	text := planText{bare: (*bare)(&p), Timeout: p.Timeout.String()}
	if p.Wait != nil {
		text.Wait = p.Wait.String()
	}
	for _, d := range []struct {
		from time.Duration
		to   *string
	}{{p.Duration, &text.Duration}, {p.RampUp, &text.RampUp}, {p.WarmUp, &text.WarmUp}} {
		if d.from != 0 {
			*d.to = d.from.String()
		}
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON writes, and refuses unknown keys.
func (p *Plan) UnmarshalJSON(data []byte) error {
	*p = Plan{}
	text := planText{bare: (*bare)(p)}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&text); err != nil {
		return err
	}
	if text.Wait != "" {
		p.Wait = new(time.Duration)
	}
	for _, d := range []struct {
		from string
		to   *time.Duration
	}{{text.Duration, &p.Duration}, {text.RampUp, &p.RampUp}, {text.WarmUp, &p.WarmUp}, {text.Wait, p.Wait}} {
		if d.from == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(d.from); err != nil {
			return err
		}
	}
	var err error
	p.Timeout, err = time.ParseDuration(text.Timeout)
	return err
}
