package class

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

// What is a sentence in each language. Names, such as redis, are the same in both.
var (
	english = regexp.MustCompile(`[a-z]{2,},? [a-z0-9]+`)
	chinese = regexp.MustCompile(`\p{Han}`)
)

// bilingual fails the test unless a refusal says why in both languages.
func bilingual(t *testing.T, what, body string) {
	t.Helper()
	var refused struct {
		Error string
		Said  struct{ EN, ZH string }
	}
	if err := json.Unmarshal([]byte(body), &refused); err != nil || refused.Error == "" {
		t.Errorf("%s: %s", what, body)
		return
	}
	if refused.Said.EN == "" || chinese.MatchString(refused.Said.EN) {
		t.Errorf("%s, in English: %s", what, body)
	}
	if !chinese.MatchString(refused.Said.ZH) || english.MatchString(refused.Said.ZH) {
		t.Errorf("%s, in Chinese: %s", what, body)
	}
}

// What an instance refuses, and that there is none, is said in both languages.
func TestAnInstanceRefuses(t *testing.T) {
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"type":"/problems/backend_down","title":"A backend is down","status":503,`+
			`"detail":"redis is down: timeout"}`)
	}))
	client, err := loadtest.NewClient(instance.URL, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	refused := func() (said string) {
		t.Helper()
		_, err := client.SetStock(t.Context(), "redis", "a", 1)
		w := httptest.NewRecorder()
		refuseFor(w, err)
		bilingual(t, fmt.Sprint(err), w.Body.String())
		return w.Body.String()
	}
	if said := refused(); !strings.Contains(said, "redis 不可用") || !strings.Contains(said, "redis is down") {
		t.Error(said)
	}
	instance.Close()
	if said := refused(); !strings.Contains(said, instance.URL) {
		t.Error(said)
	}
}
