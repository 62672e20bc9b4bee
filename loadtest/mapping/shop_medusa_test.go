package mapping_test

import (
	"net/http"
	"strconv"
	"strings"
)

// medusa answers as Medusa v2. The Admin API takes a secret key in the basic scheme, the Store API a publishable key
// and nobody's authorization. A refusal is 400 with a code.
func medusa(s *shelf) http.Handler {
	return serve(func(c *call) {
		admin := strings.HasPrefix(c.URL.Path, "/admin/")
		if admin != (c.Request.Header.Get("Authorization") == "Basic sk_1") ||
			!admin && c.Request.Header.Get("X-Publishable-Api-Key") != "pk_1" {
			c.say(401, object{"type": "unauthorized", "message": "Unauthorized"})
			return
		}
		if admin {
			medusaAdmin(c, s)
		} else {
			medusaStore(c, s)
		}
	})
}

func medusaAdmin(c *call, s *shelf) {
	const levels = "/admin/inventory-items/iitem_01J/location-levels"
	onHand, held := s.stock()
	level := []object{{"location_id": "sloc_01J", "stocked_quantity": onHand, "reserved_quantity": held}}
	switch {
	case c.is("GET", "/admin/inventory-items") && c.FormValue("sku") == "SHIRT-M":
		c.say(200, object{"inventory_items": []object{{"id": "iitem_01J", "location_levels": level}}, "count": 1})
	case c.is("GET", "/admin/product-variants"):
		c.say(200, object{"variants": []object{
			{"id": "variant_00", "sku": "SHIRT-M-RED"}, {"id": "variant_01", "sku": "SHIRT-M"},
		}})
	case c.is("POST", levels+"/sloc_01J") && c.units("stocked_quantity") >= 0:
		s.put(c.units("stocked_quantity"))
		c.say(200, object{"inventory_item": object{"id": "iitem_01J"}})
	case c.is("GET", levels):
		c.say(200, object{"inventory_levels": level})
	case c.is("GET", "/admin/orders"):
		from, _ := strconv.Atoi(c.FormValue("offset"))
		page, all := s.page(from, func(_ int, o shelfOrder) object {
			status := map[string]string{"confirmed": "pending", "rejected": "canceled"}[o.state]
			return object{
				"id": o.id, "status": status, "metadata": object{"request_id": o.ref},
				"items": []object{{"variant_id": "variant_01", "quantity": o.units}},
			}
		})
		c.say(200, object{"orders": page, "count": all, "offset": from, "limit": perPage})
	default:
		c.say(404, object{"type": "not_found", "message": "Not Found"})
	}
}

func medusaStore(c *call, s *shelf) {
	gone := func(code, message string) {
		c.say(400, object{"code": code, "type": "not_allowed", "message": message})
	}
	cart, isComplete := strings.CutSuffix(strings.TrimPrefix(c.URL.Path, "/store/carts/cart_"), "/complete")
	switch {
	case c.is("GET", "/store/regions"):
		c.say(200, object{"regions": []object{{"id": "reg_01J", "countries": []object{{"iso_2": "de"}}}}})
	case c.is("POST", "/store/carts") && c.has("region_id", "reg_01J", "items.0.variant_id", "variant_01",
		"shipping_address.country_code", "de") && c.units("items.0.quantity") == 1:
		if !s.offers() {
			gone("insufficient_inventory", "Some variant does not have the required inventory")
			return
		}
		c.say(200, object{"cart": object{"id": "cart_" + c.text("metadata.request_id")}})
	case c.is("GET", "/store/shipping-options") && strings.HasPrefix(c.FormValue("cart_id"), "cart_"):
		c.say(200, object{"shipping_options": []object{{"id": "so_01J"}}})
	case strings.HasSuffix(c.URL.Path, "/shipping-methods") && c.has("option_id", "so_01J"):
		c.say(200, object{"cart": object{"id": "cart_1"}})
	case c.is("POST", "/store/payment-collections") && strings.HasPrefix(c.text("cart_id"), "cart_"):
		c.say(200, object{"payment_collection": object{"id": "pay_col_1"}})
	case c.is("POST", "/store/payment-collections/pay_col_1/payment-sessions") &&
		c.has("provider_id", "pp_system_default"):
		c.say(200, object{"payment_collection": object{"id": "pay_col_1"}})
	case isComplete:
		id := s.sell(1, cart)
		if id == "" {
			gone("", "Not enough stock available for item iitem_01J at location sloc_01J")
			return
		}
		c.say(200, object{"type": "order", "order": object{"id": id}})
	default:
		c.say(400, object{"type": "invalid_data", "message": "Invalid request"})
	}
}
