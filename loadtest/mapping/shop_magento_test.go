package mapping_test

import (
	"net/http"
	"strconv"
	"strings"
)

// magento answers as Magento: a cart, an order and a quantity are a bare text or number, and a refusal is 400 with a
// message alone.
func magento(s *shelf) http.Handler {
	return serve(func(c *call) {
		path, isREST := strings.CutPrefix(c.URL.Path, "/rest/V1/")
		guest := strings.HasPrefix(path, "guest-carts")
		bearer := c.Request.Header.Get("Authorization")
		switch {
		case !isREST || guest && bearer != "" || !guest && bearer != "Bearer token-1":
			c.say(401, object{"message": "The consumer isn't authorized to access %resources."})
		case guest:
			magentoGuest(c, s, path)
		default:
			magentoAdmin(c, s, path)
		}
	})
}

func magentoAdmin(c *call, s *shelf, path string) {
	const item = "sourceItems.0."
	onHand, held := s.stock()
	switch {
	case path == "inventory/source-items" && c.has(item+"sku", "SHIRT-M", item+"source_code", "default"):
		s.put(c.units(item + "quantity"))
		c.say(200, []any{})
	case path == "inventory/get-product-salable-quantity/SHIRT-M/1":
		c.say(200, onHand-held)
	case path == "orders":
		number, _ := strconv.Atoi(c.FormValue("searchCriteria[currentPage]"))
		page, all := s.page((number-1)*perPage, func(i int, o shelfOrder) object {
			state := map[string]string{"confirmed": "new", "rejected": "canceled"}[o.state]
			return object{
				"entity_id": i, "state": state, "billing_address": object{"company": o.ref},
				"items": []object{{"sku": "SHIRT-M", "qty_ordered": o.units}},
			}
		})
		c.say(200, object{"items": page, "total_count": all})
	default:
		c.say(404, object{"message": "Request does not match any route."})
	}
}

func magentoGuest(c *call, s *shelf, path string) {
	const address = "addressInformation.shipping_address.company"
	gone := func(message string) { c.say(400, object{"message": message}) }
	switch _, step, _ := strings.Cut(path, "/q7Jd/"); {
	case path == "guest-carts":
		c.say(200, "q7Jd")
	case step == "items" && c.has("cartItem.sku", "SHIRT-M", "cartItem.quote_id", "q7Jd"):
		if !s.offers() {
			gone("Product that you are trying to add is not available.")
			return
		}
		c.say(200, object{"item_id": 5, "qty": c.units("cartItem.qty")})
	case step == "shipping-information" && c.text(address) != "":
		c.say(200, object{"payment_methods": []object{{"code": "checkmo"}}})
	case step == "payment-information" && c.has("paymentMethod.method", "checkmo"):
		id := s.sell(1, c.text("billing_address.company"))
		if id == "" {
			gone("The requested qty is not available")
			return
		}
		c.say(200, strings.TrimPrefix(id, "o-"))
	default:
		c.say(400, object{"message": "%fieldName is required."})
	}
}
