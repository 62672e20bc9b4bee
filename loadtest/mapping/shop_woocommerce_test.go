package mapping_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// woocommerce answers as WooCommerce. Ids are numbers, and a list is the whole reply, with the number of its pages in
// a header. A session is told by a header; its limit of requests is a 400, which each fifth customer meets here.
func woocommerce(s *shelf) http.Handler {
	var carts atomic.Int64
	return serve(func(c *call) {
		if path, isStore := strings.CutPrefix(c.URL.Path, "/wp-json/wc/store/v1/"); isStore {
			wooStore(c, s, path, &carts)
			return
		}
		user, password, _ := c.BasicAuth()
		if user != "ck_1" || password != "cs_1" {
			c.say(401, object{"code": "woocommerce_rest_cannot_view"})
			return
		}
		onHand, held := s.stock()
		product := object{"id": 77, "sku": "SHIRT-M", "stock_quantity": onHand - held}
		switch path := strings.TrimPrefix(c.URL.Path, "/wp-json/wc/v3/"); {
		case path == "products" && c.FormValue("sku") == "SHIRT-M":
			c.say(200, []object{product})
		case path == "products/77" && c.Method == "PUT":
			s.put(c.units("stock_quantity") + held)
			c.say(200, product)
		case path == "products/77":
			c.say(200, product)
		case path == "orders" && c.FormValue("product") == "77":
			wooOrders(c, s)
		default:
			c.say(404, object{"code": "rest_no_route"})
		}
	})
}

func wooOrders(c *call, s *shelf) {
	number, _ := strconv.Atoi(c.FormValue("page"))
	page, all := s.page((number-1)*perPage, func(i int, o shelfOrder) object {
		status := map[string]string{"confirmed": "processing", "rejected": "checkout-draft"}[o.state]
		return object{
			"id": i, "status": status, "customer_note": o.ref,
			"line_items": []object{{"product_id": 77, "quantity": o.units}},
		}
	})
	c.ResponseWriter.Header().Set("X-WP-Total", strconv.Itoa(all))
	c.ResponseWriter.Header().Set("X-WP-TotalPages", strconv.Itoa((all+perPage-1)/perPage))
	c.say(200, page)
}

func wooStore(c *call, s *shelf, path string, carts *atomic.Int64) {
	refuse := func(status int, code string) {
		c.say(status, object{"code": code, "message": "…", "data": object{"status": status}})
	}
	header := c.ResponseWriter.Header()
	switch {
	case path == "cart":
		if carts.Add(1)%5 == 0 {
			header.Set("RateLimit-Retry-After", "0")
			refuse(400, "rate_limit_exceeded")
			return
		}
		header.Set("Cart-Token", "eyJ."+strconv.FormatInt(carts.Load(), 10))
		header.Set("Nonce", "abc123")
		c.say(200, object{"items": []object{}})
	case !strings.HasPrefix(c.Request.Header.Get("Cart-Token"), "eyJ.") || c.Request.Header.Get("Nonce") != "abc123":
		refuse(401, "woocommerce_rest_missing_nonce")
	case path == "cart/add-item" && c.units("id") == 77 && c.units("quantity") == 1:
		if !s.offers() {
			refuse(400, "woocommerce_rest_product_out_of_stock")
			return
		}
		c.say(201, object{"items": []object{{"id": 77, "quantity": 1}}})
	case path == "checkout" && c.has("payment_method", "cod", "billing_address.email", "customer@example.com"):
		id := s.sell(1, c.text("customer_note"))
		if id == "" {
			refuse(403, "woocommerce_product_not_enough_stock")
			return
		}
		number, _ := strconv.Atoi(strings.TrimPrefix(id, "o-"))
		c.say(200, object{"order_id": number, "status": "processing", "payment_result": object{}})
	default:
		refuse(400, "rest_invalid_param")
	}
}
