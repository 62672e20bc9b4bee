package handler_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// Only who sends a token sets the stock and uses the lab. Every token counts while they are rotated, and it is right or
// wrong as a whole. The scheme is case-insensitive (RFC 9110, 11.1). A token in the query is not read, and two headers
// are refused, because a proxy may have looked at the other one.
func TestTheTokenOfTheAdmin(t *testing.T) {
	d := &fakeService{
		deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil },
		stock:  func(sku service.SKU) (service.Stock, error) { return service.Stock{SKU: sku}, nil },
	}
	url := serve(t, d, func(c *handler.Config) { c.Lab, c.Admins = true, admins("secret", "new") }).URL
	none := serve(t, d, func(c *handler.Config) { c.Admins = admins() }).URL
	send := func(method, url string, authorization []string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = authorization
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		return reply
	}
	const stock, lab = "/v1/stock/a?quantity=1", "/deduct_stock_zk?hold=10ms&fencing=off&heed_loss=off"
	for _, good := range []string{"Bearer secret", "Bearer new", "bearer secret", "BEARER   secret"} {
		d.asked = nil
		put, sold := send(http.MethodPut, url+stock, []string{good}), send(http.MethodPost, url+lab, []string{good})
		want := service.Lab{Hold: 10 * time.Millisecond, Unfenced: true, IgnoreLoss: true}
		if put.StatusCode != http.StatusOK || sold.StatusCode != http.StatusOK || d.asked[0].Lab != want {
			t.Errorf("%s: %s, %s, asked %+v", good, put.Status, sold.Status, d.asked)
		}
	}
	d.asked = nil
	for _, bad := range [][]string{
		nil,
		{""},
		{"Bearer"},
		{"Bearer "},
		{"Bearer secre"},
		{"Bearer ecret"},
		{"Bearer secretx"},
		{"Bearer xsecret"},
		{"Bearer SECRET"},
		{"Bearer secret x"},
		{"Bearer secretnew"},
		{"secret"},
		{"Bearersecret"},
		{"Basic secret"},
		{"Bearer secret", "Bearer secret"},
	} {
		for _, r := range []*http.Response{
			send(http.MethodPut, url+stock+"&access_token=secret", bad), send(http.MethodPost, url+lab, bad),
			send(http.MethodPut, none+stock, bad),
		} {
			challenge := r.Header.Get("WWW-Authenticate")
			if r.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Bearer ") {
				t.Errorf("%q, %s: %s, WWW-Authenticate %q", bad, r.Request.URL, r.Status, challenge)
			}
		}
	}
	if len(d.asked) > 0 {
		t.Errorf("sold: %+v", d.asked)
	}
	r := ask(t, http.MethodPut, none+stock, "")
	wantProblem(t, r, http.StatusUnauthorized, "unauthorized")
	if !strings.Contains(r.problem.Detail, "STOCK_ADMIN_TOKEN") {
		t.Errorf("detail %q does not say what to set", r.problem.Detail)
	}
}
