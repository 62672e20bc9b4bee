package handler_test

import (
	"net/http"
	"testing"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// Every token counts while they are rotated. One in the query is not read, and two headers are refused, because a proxy
// may have looked at the other one.
func TestWhereTheTokenIs(t *testing.T) {
	d := &fakeService{stock: func(sku service.SKU) (service.Stock, error) { return service.Stock{SKU: sku}, nil }}
	url := serve(t, d, func(c *handler.Config) {
		c.Admins = admins("old", "new")
	}).URL + "/v1/stock/a?quantity=1"
	put := func(url string, header ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = header
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		return reply.StatusCode
	}
	for _, header := range []string{"Bearer old", "Bearer new", "bearer  new"} {
		if got := put(url, header); got != http.StatusOK {
			t.Errorf("%s: %d", header, got)
		}
	}
	if got := put(url, "Bearer old", "Bearer old"); got != http.StatusUnauthorized {
		t.Errorf("two headers: %d", got)
	}
	if got := put(url + "&access_token=old"); got != http.StatusUnauthorized {
		t.Errorf("in the query: %d", got)
	}
	if got := put(url, "Bearer older"); got != http.StatusUnauthorized {
		t.Errorf("a token that is none: %d", got)
	}
}
