package mapping_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	shopifyVariant = "gid://shopify/ProductVariant/1"
	shopifyItem    = "gid://shopify/InventoryItem/2"
	shopifyPlace   = "gid://shopify/Location/3"
)

// shopify answers as the Admin API of Shopify: 200 for nearly everything, refusals in userErrors, and ids that are
// URLs. It throttles the sixth request, unless that sells.
func shopify(s *shelf) http.Handler {
	var asked atomic.Int64
	return serve(func(c *call) {
		number := asked.Add(1)
		c.ResponseWriter.Header().Set("X-Request-Id", fmt.Sprintf("request-%d", number))
		switch {
		case c.Request.Header.Get("X-Shopify-Access-Token") != "shpat_1" ||
			!c.is("POST", "/admin/api/2026-07/graphql.json"):
			c.say(401, object{"errors": "[API] Invalid API key or access token"})
		case number == 6 && !c.operation("orderCreate"):
			c.say(200, object{"errors": []object{{"message": "Throttled", "extensions": object{"code": "THROTTLED"}}}})
		case c.operation("orderCreate"):
			c.say(200, object{"data": object{"orderCreate": shopifyOrder(c, s)}})
		case c.operation("orders"):
			c.say(200, object{"data": object{"orders": shopifyOrders(c, s)}})
		default:
			c.say(200, shopifyStock(c, s))
		}
	})
}

func shopifyStock(c *call, s *shelf) object {
	onHand, held := s.stock()
	level := object{"location": object{"id": shopifyPlace}, "quantities": []object{{"quantity": onHand - held}}}
	const at = "variables.input.quantities.0."
	switch {
	case c.operation("productVariants") && c.has("variables.sku", `sku:"SHIRT-M"`):
		return object{"data": object{"productVariants": object{"nodes": []object{{
			"id":            shopifyVariant,
			"inventoryItem": object{"id": shopifyItem, "inventoryLevels": object{"nodes": []object{level}}},
		}}}}}
	case c.operation("inventorySetQuantities"):
		wrong := []object{}
		if c.units(at+"changeFromQuantity") != onHand-held || c.text("variables.once") == "" {
			wrong = append(wrong, object{"code": "CHANGE_FROM_QUANTITY_STALE", "message": "…"})
		} else if c.has(at+"inventoryItemId", shopifyItem, at+"locationId", shopifyPlace) {
			s.put(c.units(at+"quantity") + held)
		}
		return object{"data": object{"inventorySetQuantities": object{"userErrors": wrong}}}
	case c.operation("inventoryItem") && c.has("variables.item", shopifyItem, "variables.location", shopifyPlace):
		return object{"data": object{"inventoryItem": object{"inventoryLevel": level}}}
	}
	return object{"errors": []object{{"message": "Parse error"}}}
}

func shopifyOrder(c *call, s *shelf) object {
	if !c.has("variables.options.inventoryBehaviour", "DECREMENT_OBEYING_POLICY",
		"variables.order.lineItems.0.variantId", shopifyVariant) ||
		c.units("variables.order.lineItems.0.quantity") != 1 {
		return object{"order": nil, "userErrors": []object{{"code": "INVALID", "message": "Order is invalid"}}}
	}
	id := s.sell(1, c.text("variables.order.note"))
	if id == "" && len(s.listed())%2 == 0 {
		return object{"order": nil, "userErrors": []object{{"code": "INVENTORY_CLAIM_FAILED", "message": "…"}}}
	}
	if id == "" {
		return object{"order": nil, "userErrors": []object{
			{"code": "INVALID", "message": "Line items Unable to reserve inventory"},
		}}
	}
	return object{"order": object{"id": "gid://shopify/Order/" + id}, "userErrors": []object{}}
}

func shopifyOrders(c *call, s *shelf) object {
	from, _ := strconv.Atoi(strings.TrimPrefix(c.text("variables.after"), "cursor-"))
	page, all := s.page(from, func(_ int, o shelfOrder) object {
		return object{
			"id": "gid://shopify/Order/" + o.id, "note": o.ref, "cancelledAt": nil, "state": o.state,
			"lineItems": object{"nodes": []object{{"quantity": o.units, "variant": object{"id": shopifyVariant}}}},
		}
	})
	next := from + len(page)
	page = slices.DeleteFunc(page, func(o object) bool { return o["state"] == "rejected" }) // never an order here
	return object{
		"nodes":    page,
		"pageInfo": object{"hasNextPage": next < all, "endCursor": fmt.Sprintf("cursor-%d", next)},
	}
}
