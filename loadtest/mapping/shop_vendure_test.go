package mapping_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// vendure answers as Vendure: two GraphQL APIs, results that are unions, and ids that are numbers as text. A session
// is told by a header of the first reply. The stock is checked before the payment, and taken with it.
func vendure(s *shelf) http.Handler {
	var mu sync.Mutex
	companies := make(map[string]string) // by session
	return serve(func(c *call) {
		session, known := strings.CutPrefix(c.Request.Header.Get("Authorization"), "Bearer ")
		switch {
		case c.is("POST", "/admin-api") && c.Request.Header.Get("Vendure-Api-Key") == "key-1":
			c.say(200, object{"data": vendureAdmin(c, s)})
		case !c.is("POST", "/shop-api") || c.Request.Header.Get("Vendure-Api-Key") != "":
			c.say(200, object{"errors": []object{{"extensions": object{"code": "FORBIDDEN"}}}})
		default:
			mu.Lock()
			defer mu.Unlock()
			if !known {
				session = fmt.Sprintf("session-%d", len(companies))
				companies[session] = ""
				c.ResponseWriter.Header().Set("Vendure-Auth-Token", session)
			}
			if company := c.text("variables.address.company"); company != "" {
				companies[session] = company
			}
			c.say(200, object{"data": vendureShop(c, s, companies[session])})
		}
	})
}

func vendureAdmin(c *call, s *shelf) object {
	onHand, held := s.stock()
	variant := object{"id": "12", "stockLevels": []object{
		{"stockLocationId": "1", "stockOnHand": onHand, "stockAllocated": held},
	}}
	switch {
	case c.operation("productVariants") && c.has("variables.sku", "SHIRT-M"):
		return object{"productVariants": object{"items": []object{variant}}}
	case c.operation("productVariant") && c.has("variables.id", "12"):
		return object{"productVariant": variant}
	case c.operation("updateProductVariants") && c.has("variables.input.0.id", "12",
		"variables.input.0.stockLevels.0.stockLocationId", "1"):
		s.put(c.units("variables.input.0.stockLevels.0.stockOnHand"))
		return object{"updateProductVariants": []object{{"id": "12"}}}
	case c.operation("orders") && c.units("variables.skip") >= 0:
		page, all := s.page(int(c.units("variables.skip")), func(i int, o shelfOrder) object {
			state := map[string]string{"confirmed": "PaymentSettled", "rejected": "ArrangingPayment"}[o.state]
			return object{
				"id": fmt.Sprint(i), "state": state, "shippingAddress": object{"company": o.ref},
				"lines": []object{{"quantity": o.units, "productVariant": object{"id": "12"}}},
			}
		})
		return object{"orders": object{"items": page, "totalItems": all}}
	}
	return nil
}

func vendureShop(c *call, s *shelf, company string) object {
	order := object{"__typename": "Order"}
	gone := object{
		"__typename": "OrderStateTransitionError", "errorCode": "ORDER_STATE_TRANSITION_ERROR",
		"transitionError": `Cannot transition Order to the "ArrangingPayment" state due to insufficient stock of Shirt`,
	}
	switch {
	case c.operation("addItemToOrder") && c.has("variables.id", "12") && c.units("variables.count") == 1:
		if !s.offers() {
			return object{"addItemToOrder": object{
				"__typename": "InsufficientStockError", "errorCode": "INSUFFICIENT_STOCK_ERROR",
			}}
		}
		return object{"addItemToOrder": order}
	case c.operation("setOrderShippingAddress"):
		return object{"setCustomerForOrder": order, "setOrderShippingAddress": order}
	case strings.Contains(c.text("query"), "eligibleShippingMethods"):
		return object{"eligibleShippingMethods": []object{{"id": "3"}}}
	case c.operation("transitionOrderToState") && c.has("variables.shipping.0", "3"):
		if !s.offers() {
			order = gone
		}
		return object{"transitionOrderToState": order}
	case c.operation("addPaymentToOrder") && c.has("variables.input.method", "standard-payment") && company != "":
		id := s.sell(1, company)
		if id == "" {
			return object{"addPaymentToOrder": gone}
		}
		return object{"addPaymentToOrder": object{
			"__typename": "Order", "id": strings.TrimPrefix(id, "o-"), "state": "PaymentSettled",
		}}
	}
	return nil
}
