package handler

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"example.com/stock/orders/service"
)

// TestEveryFieldIsAnswered: what a row has is in the reply, except for what is hidden on purpose.
func TestEveryFieldIsAnswered(t *testing.T) {
	check := func(row any, reply func(reflect.Value) any) {
		v := reflect.New(reflect.TypeOf(row)).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name := v.Type().Name() + "." + field.Name
			empty := fmt.Sprint(asJSON(t, reply(v)))
			distinct(t, v.Field(i))
			if fmt.Sprint(asJSON(t, reply(v))) == empty {
				t.Errorf("%s is not in the reply", name)
			}
		}
	}
	check(service.Order{}, func(v reflect.Value) any { return orderOf(v.Interface().(service.Order)) })
	check(service.Reservation{},
		func(v reflect.Value) any { return reservationOf(v.Interface().(service.Reservation)) })
	check(service.Stock{}, func(v reflect.Value) any { return stockOf(v.Interface().(service.Stock)) })
	check(service.Movement{}, func(v reflect.Value) any { return movementOf(v.Interface().(service.Movement)) })
	check(service.Line{}, func(v reflect.Value) any { return lineOf(v.Interface().(service.Line)) })
}

func distinct(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("distinct")
	case reflect.Int64:
		v.SetInt(77)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		v.Set(reflect.ValueOf(time.Unix(77, 0)))
	default:
		t.Fatalf("distinct does not know %v: teach it", v.Type())
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
