package mapping_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	saleorVariant   = "UHJvZHVjdFZhcmlhbnQ6MQ=="
	saleorWarehouse = "V2FyZWhvdXNlOjE="
)

// saleor answers as Saleor: GraphQL with errors in each mutation, and ids in base64. An app's token is for the stock
// and the orders; customers have none.
func saleor(s *shelf) http.Handler {
	return serve(func(c *call) {
		customer := c.operation("checkoutCreate") || c.operation("checkoutDeliveryMethodUpdate") ||
			c.operation("checkoutComplete")
		auth := c.Request.Header.Get("Authorization")
		switch {
		case !c.is("POST", "/graphql/"):
			c.say(404, object{})
		case customer && auth == "":
			c.say(200, object{"data": saleorCheckout(c, s)})
		case !customer && auth == "Bearer app-1":
			c.say(200, object{"data": saleorStock(c, s)})
		default:
			c.say(200, object{"errors": []object{{"message": "To access this path, you need a permission"}}})
		}
	})
}

func saleorStock(c *call, s *shelf) object {
	onHand, held := s.stock()
	switch {
	case c.operation("stockBulkUpdate") && c.has("variables.stocks.0.variantId", saleorVariant,
		"variables.stocks.0.warehouseId", saleorWarehouse):
		s.put(c.units("variables.stocks.0.quantity"))
		return object{"stockBulkUpdate": object{"count": 1, "errors": []object{}}}
	case c.has("variables.sku", "SHIRT-M") || c.has("variables.id", saleorVariant):
		return object{"productVariant": object{"id": saleorVariant, "stocks": []object{
			{"quantity": onHand, "quantityAllocated": held, "warehouse": object{"id": saleorWarehouse}},
		}}}
	case c.operation("orders"):
		from, _ := strconv.Atoi(c.text("variables.after"))
		page, all := s.page(from, func(_ int, o shelfOrder) object {
			status := map[string]string{"confirmed": "UNFULFILLED", "rejected": "CANCELED"}[o.state]
			return object{"node": object{
				"id": saleorID("Order", o.id), "status": status, "request": o.ref,
				"lines": []object{{"quantity": o.units, "variant": object{"id": saleorVariant}}},
			}}
		})
		return object{"orders": object{
			"totalCount": all, "edges": page,
			"pageInfo": object{"hasNextPage": from+len(page) < all, "endCursor": strconv.Itoa(from + len(page))},
		}}
	}
	return object{"productVariant": nil}
}

func saleorCheckout(c *call, s *shelf) object {
	gone := func(mutation, part string) object {
		return object{mutation: object{part: nil, "errors": []object{{"code": "INSUFFICIENT_STOCK"}}}}
	}
	switch {
	case c.operation("checkoutCreate") && c.has("variables.input.channel", "default-channel",
		"variables.input.lines.0.variantId", saleorVariant) && c.units("variables.input.lines.0.quantity") == 1:
		if !s.offers() {
			return gone("checkoutCreate", "checkout")
		}
		id := saleorID("Checkout", c.text("variables.input.metadata.0.value"))
		return object{"checkoutCreate": object{"errors": []object{}, "checkout": object{
			"id": id, "shippingMethods": []object{{"id": saleorID("ShippingMethod", "1")}},
		}}}
	case c.operation("checkoutDeliveryMethodUpdate") && c.has("variables.delivery", saleorID("ShippingMethod", "1")):
		return object{"checkoutDeliveryMethodUpdate": object{
			"checkout": object{"id": c.text("variables.id")}, "errors": []object{},
		}}
	case c.operation("checkoutComplete"):
		plain, _ := base64.StdEncoding.DecodeString(c.text("variables.id"))
		id := s.sell(1, strings.TrimPrefix(string(plain), "Checkout:"))
		if id == "" {
			return gone("checkoutComplete", "order")
		}
		return object{"checkoutComplete": object{"order": object{"id": saleorID("Order", id)}, "errors": []object{}}}
	}
	return nil
}

func saleorID(kind, id string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%s", kind, id))
}
