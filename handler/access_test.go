package handler_test

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
	"example.com/stock/handler/access/issuer"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

const issuerName, audience = "https://id.example.com", "shop"

// A guarded is a service of both kinds whose customers need tokens.
type guarded struct {
	url     string
	issuer  *issuer.Issuer
	routes  []handler.Route // of both listeners, each once
	shelf   *shelf
	service *fakeService
	log     *journal
}

func guardedService(t *testing.T, change func(*options)) *guarded {
	t.Helper()
	_, private, _ := ed25519.GenerateKey(nil)
	g := &guarded{issuer: issuer.New(private), shelf: newShelf(), log: &journal{}}
	keys := access.NewKeys(func(context.Context) ([]byte, error) { return g.issuer.JWKS(), nil }, access.IssuerPace(),
		slog.New(slog.DiscardHandler))
	if err := keys.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	tokens := access.NewTokens(access.Rule{Issuer: issuerName, Audience: audience}, keys)
	g.service = &fakeService{
		deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil },
		stock:  func(sku service.SKU) (service.Stock, error) { return service.Stock{SKU: sku, Quantity: 5}, nil },
		settle: func(string, service.SKU, string) (service.Settlement, error) { return service.Settlement{}, nil },
	}
	set := func(c *options) {
		c.Door = access.NewDoor(access.Static(token), tokens)
		c.Demo.Lab, c.Demo.Pauses, c.Demo.Holds = true, &pausedSale{}, &heldSale{}
		c.Demo.Steps = service.NewSteps(16)
		c.Orders, c.Log = shopOf(g.shelf), slog.New(slog.NewTextHandler(g.log, nil))
		if change != nil {
			change(c)
		}
	}
	public, admin := build(g.service, set), handler.NewAdmin(config(g.service, set))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forOperators(r.URL.Path) {
			admin.ServeHTTP(w, r)
		} else {
			public.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	g.url = s.URL
	forCustomers, operators := handler.Table(config(g.service, set))
	for _, r := range slices.Concat(forCustomers, operators) {
		same := func(o handler.Route) bool { return o.Method == r.Method && o.Path == r.Path }
		if !slices.ContainsFunc(g.routes, same) {
			g.routes = append(g.routes, r)
		}
	}
	return g
}

// A journal is a log that is read while requests end.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// claims are those of a valid token.
func claims(sub string, scopes ...access.Scope) map[string]any {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return map[string]any{
		"iss": issuerName, "aud": audience, "sub": sub, "scope": strings.Join(words, " "),
		"exp": time.Now().Add(time.Hour).Unix(),
	}
}

// bearer returns the header with a token of these claims.
func (g *guarded) bearer(t *testing.T, claims map[string]any) []string {
	t.Helper()
	text, err := g.issuer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + text}
}

// ids are the parameters of paths.
var ids = strings.NewReplacer(":sku", "book", ":order_id", someID, ":reservation_id", someID,
	":strategy", "redis-watchdog", ":key", "book", ":request", "r:2", ":name", "sold_out")

const someID = "0190b2f4-0000-7000-8000-00000000000a"

// ask sends a request to a route, without a body.
func (g *guarded) ask(t *testing.T, r handler.Route, query string, header ...string) reply {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // it ends a stream
	req, err := http.NewRequestWithContext(ctx, r.Method, g.url+ids.Replace(r.Path)+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := reply{Response: resp}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/") {
		_ = json.NewDecoder(resp.Body).Decode(&answer.problem)
	}
	return answer
}

// hs256 signs claims with a secret that is public.
func hs256(claims map[string]any, secret []byte) string {
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "HS256", "kid": "k", "typ": "JWT"}) + "." + part(claims)
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Every attack on a token is refused at every route that needs one, with the challenge of RFC 6750, and nothing of the
// token is in a reply or in the log.
func TestAttacksOnEveryRoute(t *testing.T) {
	g := guardedService(t, nil)
	all := access.Scopes()
	change := func(claim string, value any) map[string]any {
		c := claims("s3cret", all...)
		c[claim] = value
		return c
	}
	signed := func(c map[string]any) string { return g.bearer(t, c)[1] }
	none := strings.Split(signed(claims("s3cret", all...)), ".")
	none[0] = "Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	_, other, _ := ed25519.GenerateKey(nil)
	stranger, _ := issuer.New(other).Sign(claims("s3cret", all...))
	attacks := map[string][]string{
		"no token":       nil,
		"basic":          {"Authorization", "Basic czNjcmV0OnMzY3JldA=="},
		"garbage":        {"Authorization", "Bearer s3cret"},
		"alg none":       {"Authorization", none[0] + "." + none[1] + "."},
		"HS256":          {"Authorization", "Bearer " + hs256(claims("s3cret", all...), g.issuer.JWKS())},
		"another's key":  {"Authorization", "Bearer " + stranger},
		"wrong issuer":   {"Authorization", signed(change("iss", "https://evil.example.com"))},
		"wrong audience": {"Authorization", signed(change("aud", "bank"))},
		"expired":        {"Authorization", signed(change("exp", time.Now().Add(-time.Hour).Unix()))},
		"not yet valid":  {"Authorization", signed(change("nbf", time.Now().Add(time.Hour).Unix()))},
		"huge":           {"Authorization", "Bearer " + strings.Repeat("s3cret", 5000)},
		"cookie":         {"Cookie", "access_token=" + token},
	}
	const description = `error="invalid_token", error_description="[a-zA-Z0-9 ,]+"`
	challenge := regexp.MustCompile(`^Bearer realm="stock"(, ` + description + `)?$`)
	tried := 0
	for _, r := range g.routes {
		for name, header := range attacks {
			reply := g.ask(t, r, "", header...)
			if len(r.Needs) == 0 {
				if reply.StatusCode != http.StatusOK {
					t.Errorf("%s %s, %s: %d; it is for everybody", r.Method, r.Path, name, reply.StatusCode)
				}
				continue
			}
			tried++
			said := reply.Header.Get("WWW-Authenticate")
			if reply.StatusCode != http.StatusUnauthorized || reply.problem.Type != "/problems/unauthorized" ||
				!challenge.MatchString(said) || strings.Contains(reply.problem.Detail+said, "s3cret") {
				t.Errorf("%s %s, %s: %d %+v, %s", r.Method, r.Path, name, reply.StatusCode, reply.problem, said)
			}
			missing := header == nil || name == "basic" || name == "cookie"
			if strings.Contains(said, "error=") == missing {
				t.Errorf("%s: %s", name, said)
			}
		}
	}
	if tried < 300 || len(g.service.asked) > 0 {
		t.Errorf("%d attacks, %d sales", tried, len(g.service.asked))
	}
	if strings.Contains(g.log.String(), "s3cret") || strings.Contains(g.log.String(), "Bearer") {
		t.Errorf("the log has something of a token:\n%.2000s", g.log)
	}
}

// A token in the query is not read, and where there is another it is refused. Two headers Authorization are refused,
// because a proxy may have looked at the other one.
func TestTokensInOtherPlaces(t *testing.T) {
	g := guardedService(t, nil)
	header := g.bearer(t, claims("ann", access.Scopes()...))
	_, value, _ := strings.Cut(header[1], " ")
	for _, r := range g.routes {
		if len(r.Needs) == 0 {
			continue
		}
		for _, name := range []string{"access_token", "token", "authorization"} {
			if reply := g.ask(t, r, "?"+name+"="+value); reply.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s?%s=: %d", r.Method, r.Path, name, reply.StatusCode)
			}
			reply := g.ask(t, r, "?"+name+"="+value, "Authorization", "Bearer "+token)
			if reply.StatusCode != http.StatusBadRequest || reply.problem.Field != name {
				t.Errorf("%s %s?%s= with a token: %d %+v", r.Method, r.Path, name, reply.StatusCode, reply.problem)
			}
		}
		for _, two := range [][]string{
			slices.Concat(header, header), {"Authorization", "Bearer " + token, "Authorization", header[1]},
		} {
			reply := g.ask(t, r, "", two...)
			if reply.StatusCode != http.StatusBadRequest || reply.problem.Field != "Authorization" {
				t.Errorf("%s %s, two headers: %d %+v", r.Method, r.Path, reply.StatusCode, reply.problem)
			}
		}
	}
	if strings.Contains(g.log.String(), value) {
		t.Error("the log has a token of a query")
	}
}

// With all scopes but those that it needs, a route is refused, and the reply names them. One of them is enough.
func TestOneScopeLess(t *testing.T) {
	g := guardedService(t, nil)
	opened := make(map[access.Scope]int)
	for _, r := range g.routes {
		if len(r.Needs) == 0 {
			continue
		}
		others := slices.DeleteFunc(access.Scopes(), func(s access.Scope) bool { return slices.Contains(r.Needs, s) })
		for _, scopes := range [][]access.Scope{others, nil} {
			reply := g.ask(t, r, "", g.bearer(t, claims("ann", scopes...))...)
			said := reply.Header.Get("WWW-Authenticate")
			if reply.StatusCode != http.StatusForbidden || reply.problem.Type != "/problems/scope_missing" {
				t.Errorf("%s %s with %v: %d %+v", r.Method, r.Path, scopes, reply.StatusCode, reply.problem)
			}
			for _, need := range r.Needs {
				if !strings.Contains(said, string(need)) || !strings.Contains(said, `error="insufficient_scope"`) ||
					need != access.Lab && !strings.Contains(reply.problem.Detail, string(need)) {
					t.Errorf("%s %s does not name %s: %s, %s", r.Method, r.Path, need, reply.problem.Detail, said)
				}
			}
		}
		for _, need := range r.Needs {
			if opened[need]++; need == access.Lab {
				continue
			}
			reply := g.ask(t, r, "", g.bearer(t, claims("ann", need))...)
			if reply.StatusCode == http.StatusUnauthorized || reply.StatusCode == http.StatusForbidden {
				t.Errorf("%s %s with %s alone: %d %+v", r.Method, r.Path, need, reply.StatusCode, reply.problem)
			}
		}
		reply := g.ask(t, r, "", "Authorization", "Bearer "+token)
		if reply.StatusCode == http.StatusUnauthorized || reply.StatusCode == http.StatusForbidden {
			t.Errorf("%s %s with the operator's token: %d %+v", r.Method, r.Path, reply.StatusCode, reply.problem)
		}
	}
	for _, s := range access.Scopes() {
		if opened[s] == 0 && s != access.RelayWrite { // the relay has no route yet, only commands
			t.Errorf("%s opens nothing", s)
		}
	}
}

// As a customer, one's own name may be given or not, and another's is refused in the body and in the query. As
// everybody, the name must be given.
func TestTheCustomerIsTheTokens(t *testing.T) {
	g := guardedService(t, func(c *options) { c.Shop, c.Demo.Strategies, c.Demo.Lab = true, nil, false })
	ann, any := g.bearer(t, claims("ann", access.OrdersOwn)), g.bearer(t, claims("desk", access.OrdersAny))
	both := g.bearer(t, claims("ann", access.OrdersOwn, access.OrdersAny))
	operator := []string{"Authorization", "Bearer " + token}
	for _, row := range []struct {
		who      []string
		named    string
		status   int
		problem  string
		customer string
	}{
		{ann, "", http.StatusCreated, "", "ann"},
		{ann, `"customer":"ann",`, http.StatusCreated, "", "ann"},
		{ann, `"customer":"bob",`, http.StatusForbidden, "not_yours", ""},
		{ann, `"customer":"Ann",`, http.StatusForbidden, "not_yours", ""},
		{ann, `"customer":"",`, http.StatusForbidden, "not_yours", ""},
		{any, "", http.StatusBadRequest, "invalid", ""},
		{any, `"customer":"bob",`, http.StatusCreated, "", "bob"},
		{both, "", http.StatusCreated, "", "ann"},
		{both, `"customer":"bob",`, http.StatusCreated, "", "bob"},
		{operator, "", http.StatusBadRequest, "invalid", ""},
		{operator, `"customer":"bob",`, http.StatusCreated, "", "bob"},
	} {
		body := `{` + row.named + `"lines":[{"sku":"book","quantity":1}]}`
		r := send(t, http.MethodPost, g.url+"/v1/orders", body, row.who...)
		if row.problem != "" {
			wantProblem(t, r, row.status, row.problem)
			continue
		}
		if o := decodeAs[orders.Order](t, r, row.status); o.Customer != row.customer {
			t.Errorf("%s: the order is %s's, want %s's", row.named, o.Customer, row.customer)
		}
	}
	wantProblem(t, ask(t, http.MethodGet, g.url+"/v1/orders?customer=bob", "", ann...), 403, "not_yours")
	for _, list := range []string{"/v1/orders", "/v1/orders?customer=ann"} {
		r := ask(t, http.MethodGet, g.url+list, "", ann...)
		if r.StatusCode != 200 || !strings.Contains(string(r.body), "ann") {
			t.Errorf("%s: %d %s", list, r.StatusCode, r.body)
		}
	}
	for _, sub := range []string{"", "a|b", strings.Repeat("x", 65), ".."} {
		r := ask(t, http.MethodGet, g.url+"/v1/orders", "", g.bearer(t, claims(sub, access.OrdersOwn))...)
		wantProblem(t, r, 401, "unauthorized")
	}
}

// Another's order or reservation is answered, at every route with an id, byte for byte like one that is not there.
func TestAnothersOrderLooksLikeNone(t *testing.T) {
	g := guardedService(t, func(c *options) { c.Shop, c.Demo.Strategies, c.Demo.Lab = true, nil, false })
	ann, bob := g.bearer(t, claims("ann", access.OrdersOwn)), g.bearer(t, claims("bob", access.OrdersOwn))
	cart := `{"lines":[{"sku":"book","quantity":1}]`
	o := decodeAs[orders.Order](t, send(t, http.MethodPost, g.url+"/v1/orders", cart+`}`, ann...), 201)
	held := send(t, http.MethodPost, g.url+"/v1/reservations", cart+`,"ttl":"15m"}`, ann...)
	res := decodeAs[orders.Reservation](t, held, 201)
	tried := 0
	for _, r := range g.routes {
		parameter, id := ":order_id", o.ID
		if strings.Contains(r.Path, ":reservation_id") {
			parameter, id = ":reservation_id", res.ID
		}
		if !strings.Contains(r.Path, parameter) {
			continue
		}
		tried++
		body := ""
		if strings.HasSuffix(r.Path, "/extend") {
			body = `{"ttl":"30m"}`
		}
		at := func(id string, who []string) reply {
			path := strings.Replace(r.Path, parameter, id, 1)
			header := append([]string{"Content-Type", asJSON, "X-Request-Id", "same"}, who...)
			return ask(t, r.Method, g.url+path, body, header...)
		}
		others, none := at(id, bob), at(someID, bob)
		wantProblem(t, others, http.StatusNotFound, "not_found")
		if strings.ReplaceAll(string(others.body), id, someID) != string(none.body) {
			t.Errorf("%s %s: another's: %s\nnone: %s", r.Method, r.Path, others.body, none.body)
		}
		for _, header := range []http.Header{others.Header, none.Header} {
			header.Del("Date")
		}
		if a, b := http.Header(others.Header), http.Header(none.Header); !equalHeaders(a, b) {
			t.Errorf("%s %s: another's: %v\nnone: %v", r.Method, r.Path, a, b)
		}
	}
	if tried != 6 {
		t.Errorf("%d routes with an id were tried", tried)
	}
	for path, state := range map[string]string{
		"/v1/orders/" + o.ID: `"placed"`, "/v1/reservations/" + res.ID: `"held"`,
	} {
		if r := ask(t, http.MethodGet, g.url+path, "", ann...); !strings.Contains(string(r.body), state) {
			t.Errorf("it was changed: %s", r.body)
		}
	}
	var page struct{ Next string }
	if err := json.Unmarshal(ask(t, http.MethodGet, g.url+"/v1/orders", "", ann...).body, &page); err != nil {
		t.Fatal(err)
	}
	another := ask(t, http.MethodGet, g.url+"/v1/orders?cursor="+page.Next, "", append(bob, "X-Request-Id", "same")...)
	wrong := ask(t, http.MethodGet, g.url+"/v1/orders?cursor=x", "", append(bob, "X-Request-Id", "same")...)
	wantProblem(t, another, http.StatusBadRequest, "invalid")
	if page.Next == "" || string(another.body) != string(wrong.body) {
		t.Errorf("another's cursor %q: %s\na wrong one: %s", page.Next, another.body, wrong.body)
	}
	// Who may act for everybody sees it.
	desk := g.bearer(t, claims("desk", access.OrdersAny))
	if r := ask(t, http.MethodGet, g.url+"/v1/orders/"+o.ID+"?customer=ann", "", desk...); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// equalHeaders compares lengths, too, so that the ids in bodies do not matter.
func equalHeaders(a, b http.Header) bool {
	for name := range b {
		if !slices.Equal(a[name], b[name]) {
			return false
		}
	}
	return len(a) == len(b)
}

// Movements are for stock:read. Whose they are is only for those who may see every customer's orders.
func TestMovementsWithTokens(t *testing.T) {
	g := guardedService(t, nil)
	for _, row := range []struct {
		scopes []access.Scope
		names  bool
	}{
		{[]access.Scope{access.StockRead}, false},
		{[]access.Scope{access.StockRead, access.OrdersOwn}, false},
		{[]access.Scope{access.StockRead, access.OrdersAny}, true},
	} {
		r := ask(t, http.MethodGet, g.url+"/v1/stock/book/movements", "", g.bearer(t, claims("ann", row.scopes...))...)
		if shown := strings.Contains(string(r.body), `"customer":`); r.StatusCode != 200 || shown != row.names {
			t.Errorf("%v: %d %s", row.scopes, r.StatusCode, r.body)
		}
	}
}

// The document says of every route what the table says, with tokens and without.
func TestTheDocumentHasTheScopes(t *testing.T) {
	type described struct {
		Security  []map[string][]string
		Responses map[string]json.RawMessage
	}
	read := func(url string) (found map[string]map[string]described) {
		var d struct {
			Paths map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal(ask(t, http.MethodGet, url+"/openapi.json", "").body, &d); err != nil {
			t.Fatal(err)
		}
		found = make(map[string]map[string]described)
		for path, item := range d.Paths {
			found[path] = make(map[string]described)
			for method, raw := range item {
				var o described
				_ = json.Unmarshal(raw, &o) // servers and parameters are no operations
				found[path][method] = o
			}
		}
		return found
	}
	g := guardedService(t, nil)
	open, _ := everyRoute(t)
	with, without := read(g.url), read(open)
	parameter := regexp.MustCompile(`:(\w+)`)
	for _, r := range g.routes {
		path, method := parameter.ReplaceAllString(r.Path, "{$1}"), strings.ToLower(r.Method)
		var want []string
		for _, need := range r.Needs {
			if need != access.Lab {
				want = append(want, "token "+string(need))
			}
		}
		if len(r.Needs) > 0 {
			want = append(want, "admin ")
		}
		if got := flat(with[path][method].Security); !slices.Equal(got, want) {
			t.Errorf("with tokens %s %s needs %q, want %q", r.Method, r.Path, got, want)
		}
		if _, ok := with[path][method].Responses["403"]; ok != (len(r.Needs) > 0) {
			t.Errorf("%s %s: a reply 403: %v", r.Method, r.Path, ok)
		}
		want = nil
		if len(r.Needs) > 0 && r.Needs[0].ForOperators() {
			want = []string{"admin "}
		}
		if got := flat(without[path][method].Security); !slices.Equal(got, want) {
			t.Errorf("without tokens %s %s needs %q, want %q", r.Method, r.Path, got, want)
		}
	}
}

func flat(security []map[string][]string) (list []string) {
	for _, one := range security {
		for scheme, scopes := range one {
			list = append(list, scheme+" "+strings.Join(scopes, " "))
		}
	}
	return list
}

// An instance that knows no key serves no customer, so it is not ready. It says no more of its keys.
func TestReadyOnceThereAreKeys(t *testing.T) {
	var text []byte
	keys := access.NewKeys(func(context.Context) ([]byte, error) { return text, nil }, access.IssuerPace(),
		slog.New(slog.DiscardHandler))
	door := access.NewDoor(access.Static(), access.NewTokens(access.Rule{Issuer: issuerName, Audience: audience}, keys))
	s := serve(t, &fakeService{}, func(c *options) { c.Door = door })
	_ = keys.Read(t.Context())
	if r := ask(t, http.MethodGet, s.URL+"/readyz", ""); r.StatusCode != 503 ||
		!strings.Contains(string(r.body), `"tokens cannot be verified"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	_, private, _ := ed25519.GenerateKey(nil)
	text = issuer.New(private).JWKS()
	if err := keys.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := ask(t, http.MethodGet, s.URL+"/readyz", ""); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
