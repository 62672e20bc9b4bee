package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"example.com/stock/orders/api"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

// These tests are for whoever adds a field: one that is not stored or not read fails here. They find the fields by
// reflection. An operation with a body needs a row in trips.

// A trip says how a request is sent, and where what it sets is read back.
type trip struct {
	method string
	path   func(t *testing.T) string
	// read returns the paths of the API to read after the request.
	read func(r reply) []string
	// elsewhere says under which name a field is read that has another one in the request, as in "lines[0].quantity".
	elsewhere map[string]string
}

var trips = map[string]trip{
	"placeOrder": {
		method: "POST", path: func(*testing.T) string { return "/v1/orders" },
		read: func(r reply) []string { return []string{r.header.Get("Location")} },
	},
	"reserve": {
		method: "POST", path: func(*testing.T) string { return "/v1/reservations" },
		read:      func(r reply) []string { return []string{r.header.Get("Location")} },
		elsewhere: map[string]string{"ttl_seconds": "expires_at-created_at"},
	},
	"extendReservation": {
		method: "POST", path: func(t *testing.T) string {
			made := call(t, "POST", "/v1/reservations", unique("key"), held(stocked(t, 1), 1, 60))
			return want(t, made, 201).header.Get("Location") + "/extend"
		},
		read:      func(r reply) []string { return []string{"/v1/reservations/" + r.body["reservation_id"].(string)} },
		elsewhere: map[string]string{"ttl_seconds": "expires_at-extended_at"},
	},
	"setStock": {
		method: "PUT", path: func(*testing.T) string { return "/v1/stock/" + unique("sku") }, read: stockOf,
		elsewhere: map[string]string{"quantity": "available", "reason": "movements[0].reason"},
	},
	"adjustStock": {
		method: "POST", read: stockOf,
		path:      func(*testing.T) string { return "/v1/stock/" + unique("sku") + "/adjustments" },
		elsewhere: map[string]string{"delta": "available", "reason": "movements[0].reason"},
	},
	"setPolicy": {
		method: "PUT", read: stockOf,
		path: func(t *testing.T) string { return "/v1/stock/" + stocked(t, 1) + "/policy" },
	},
}

func stockOf(r reply) []string {
	sku := "/v1/stock/" + r.body["sku"].(string)
	return []string{sku, sku + "/movements"}
}

func TestEveryFieldIsStoredAndRead(t *testing.T) {
	for id, typ := range bodies(t) {
		t.Run(id, func(t *testing.T) {
			way, ok := trips[id]
			if !ok {
				t.Fatalf("operation %s has a body, but no row in trips", id)
			}
			body := filled(t, typ)
			r := call(t, way.method, way.path(t), unique("key"), body)
			if r.status/100 != 2 {
				t.Fatalf("%d %s", r.status, r.text)
			}
			got := map[string]any{} // without r.body: what was only answered does not count
			for _, path := range way.read(r) {
				maps.Copy(got, flat(want(t, call(t, "GET", path, "", nil), 200).body))
			}
			addDifference(t, got)
			for field, sent := range flat(object(t, body)) {
				name := field
				if other, ok := way.elsewhere[field]; ok {
					name = other
				}
				if read, ok := got[name]; !ok {
					t.Errorf("%s: %s was sent, but %v have no %s: it is not stored or not read", id, field,
						way.read(r), name)
				} else if read != sent {
					t.Errorf("%s: %s was sent as %v, and %s is read as %v", id, field, sent, name, read)
				}
			}
		})
	}
}

// TestFingerprintStays: clients repeat requests that they sent to the version before. These are of the first version. A
// new field that is in the fingerprint when it is absent fails here.
func TestFingerprintStays(t *testing.T) {
	for _, sku := range []string{"stays-a", "stays-b"} {
		want(t, call(t, "PUT", "/v1/stock/"+sku, "", map[string]any{"quantity": 9}), 200)
	}
	for i, c := range []struct{ path, body, want string }{
		{"/v1/orders", `{"lines":[{"sku":"stays-a","quantity":1}]}`, "e2747372"},
		{"/v1/orders", `{"lines":[{"quantity":2,"sku":"stays-b"},{"sku":"stays-a","quantity":1}]}`, "bbcf6368"},
		{"/v1/reservations", `{"ttl_seconds":60,"lines":[{"quantity":2,"sku":"stays-b"}]}`, "8fa6b274"},
	} {
		want(t, call(t, "POST", c.path, fmt.Sprintf("stays-%d", i), c.body), 201)
		var got string
		err := rows.QueryRow("SELECT LOWER(HEX(fingerprint)) FROM idempotency_keys"+
			" WHERE id IN (UNHEX(SHA2(?, 256)), UNHEX(SHA2(?, 256)))",
			fmt.Sprintf("ann\x00placeOrder\x00\x00stays-%d", i),
			fmt.Sprintf("ann\x00reserve\x00\x00stays-%d", i)).
			Scan(&got)
		if err != nil || got[:8] != c.want {
			t.Errorf("%s: %.8s, was %s: the keys of the version before are not valid any more (%v)", c.body, got,
				c.want, err)
		}
	}
}

// TestGenerated: the interface of the service is that of the document.
func TestGenerated(t *testing.T) {
	written, err := openapi3.NewLoader().LoadFromFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	generated, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := encoded(t, written), encoded(t, generated); a != b {
		t.Error("api/gen.go is not made from api/openapi.yaml: run go generate ./api")
	}
}

// TestEveryColumnIsStored writes a filled row of each kind by a step, reads it, and asks for it.
func TestEveryColumnIsStored(t *testing.T) {
	var o service.Order
	var r service.Reservation
	var m service.Movement
	n := 0
	for _, v := range []any{&o, &r, &m} {
		fill(t, reflect.ValueOf(v).Elem(), &n, nil)
	}
	sku := stocked(t, 1)
	o.ID, r.ID, o.Lines, r.Lines = uuid(), uuid(), o.Lines[:1], r.Lines[:1]
	m.SKU, m.Number, m.Received = sku, 2, m.Available+m.Reserved+m.Sold
	level := service.Stock{SKU: sku, Received: 9, Available: 2, Reserved: 3, Sold: 4, Number: 2, PerCustomer: 5}
	_, _, err := store.Step(
		context.Background(),
		repo.Ask{SKUs: []string{sku}},
		func(service.State) (service.Changes, error) {
			return service.Changes{
				Result: service.Result{
					Order: &o, Reservation: &r,
				}, Movements: []service.Movement{m}, Levels: []service.Stock{level},
			}, nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	gotO, err := store.Order(context.Background(), o.Customer, o.ID)
	same(t, gotO, o, err)
	gotR, err := store.Reservation(context.Background(), r.Customer, r.ID)
	same(t, gotR, r, err)
	gotM, err := store.Movements(context.Background(), sku, 1, 1)
	same(t, gotM, []service.Movement{m}, err)
	gotS, err := store.Stock(context.Background(), sku)
	same(t, gotS, level, err)
	answered(t, "/v1/orders/"+o.ID, o.Customer, o)
	answered(t, "/v1/reservations/"+r.ID, r.Customer, r)
	answered(t, "/v1/stock/"+sku+"/movements", "ann", m)
	answered(t, "/v1/stock/"+sku, "ann", level)
}

func same[T any](t *testing.T, got, want T, err error) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v\nwritten %+v\n%v", got, want, err)
	}
}

// answered fails unless the reply to a customer has every value of a row. They all differ.
func answered(t *testing.T, path, customer string, row any) {
	t.Helper()
	r, err := send("GET", path, "", customer, nil)
	if err != nil || r.status != 200 {
		t.Fatal(r.text, err)
	}
	said := slices.Collect(maps.Values(flat(r.body)))
	for field, value := range flat(object(t, row)) {
		if !slices.Contains(said, value) {
			t.Errorf("%s does not answer %s, which is %v: %s", path, field, value, r.text)
		}
	}
}

// bodies returns the generated types of the bodies that operations of the document have, by the operations' ids.
func bodies(t *testing.T) map[string]reflect.Type {
	t.Helper()
	doc, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]reflect.Type{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			name := strings.ToUpper(op.OperationID[:1]) + op.OperationID[1:]
			method, ok := reflect.TypeFor[api.StrictServerInterface]().MethodByName(name)
			if !ok {
				t.Errorf("%s is not generated: run go generate ./api", op.OperationID)
				continue
			}
			if body, ok := method.Type.In(1).FieldByName("Body"); ok {
				all[op.OperationID] = body.Type.Elem()
			}
		}
	}
	return all
}

// filled returns a body all of whose fields have values of their own. Its SKUs exist.
func filled(t *testing.T, typ reflect.Type) any {
	t.Helper()
	n, v := 1, reflect.New(typ)
	fill(t, v.Elem(), &n, func(field string) (any, bool) {
		switch field {
		case "Sku":
			return stocked(t, 100), true
		case "TtlSeconds": // longer than that of the reservation that is extended
			return int64(700), true
		}
		return nil, false
	})
	return v.Interface()
}

// fill sets every field to a value of its own; special may choose some.
func fill(t *testing.T, v reflect.Value, n *int, special func(field string) (any, bool)) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n, special)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), n, special)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2030, 1, 1, 0, 0, *n, 123456000, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if special != nil {
				if value, ok := special(v.Type().Field(i).Name); ok {
					v.Field(i).Set(reflect.ValueOf(value))
					continue
				}
			}
			fill(t, v.Field(i), n, special)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("fill does not know %v: teach it", v.Type())
	}
}

// flat returns the values of an object by their paths.
func flat(v any) map[string]any {
	all := map[string]any{}
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				walk(value, strings.TrimPrefix(path+"."+name, "."))
			}
		case []any:
			for i, value := range v {
				walk(value, fmt.Sprintf("%s[%d]", path, i))
			}
		default:
			all[path] = v
		}
	}
	walk(v, "")
	return all
}

// addDifference adds the times to live of a reservation.
func addDifference(t *testing.T, got map[string]any) {
	t.Helper()
	for _, from := range []string{"created_at", "extended_at"} {
		if got["expires_at"] != nil && got[from] != nil {
			got["expires_at-"+from] = at(t, got["expires_at"]).Sub(at(t, got[from])).Seconds()
		}
	}
}

func at(t *testing.T, text any) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339Nano, text.(string))
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func object(t *testing.T, v any) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(encoded(t, v)), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var ids int

func uuid() string {
	ids++
	return fmt.Sprintf("00000000-0000-0000-0000-%012d", ids)
}
