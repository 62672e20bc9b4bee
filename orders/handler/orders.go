package handler

import (
	"cmp"
	"context"
	"slices"

	"example.com/stock/orders/api"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

func (h *Handler) PlaceOrder(ctx context.Context, r api.PlaceOrderRequestObject) (api.PlaceOrderResponseObject, error) {
	sortLines(r.Body.Lines)
	key, err := keyOf(ctx, "placeOrder", "", r.Params.IdempotencyKey, r.Body)
	if err != nil {
		return nil, err
	}
	order := service.Order{ID: newID(), Customer: customerOf(ctx), Lines: cartOf(r.Body.Lines)}
	ask := repo.Ask{SKUs: service.SKUs(order.Lines), Customer: order.Customer, Key: key}
	result, replayed, err := h.store.Step(ctx, ask, service.Place(order))
	if err != nil {
		return nil, err
	}
	headers := api.OrderCreatedResponseHeaders{IdempotentReplayed: replayed, Location: "/v1/orders/" + result.Order.ID}
	reply := api.OrderCreatedJSONResponse{Body: orderOf(*result.Order), Headers: headers}
	return api.PlaceOrder201JSONResponse{OrderCreatedJSONResponse: reply}, nil
}

func (h *Handler) GetOrder(ctx context.Context, r api.GetOrderRequestObject) (api.GetOrderResponseObject, error) {
	order, err := h.store.Order(ctx, customerOf(ctx), r.Id)
	if err != nil {
		return nil, err
	}
	return api.GetOrder200JSONResponse{OrderJSONResponse: orderReply(order, false)}, nil
}

func (h *Handler) ListOrders(ctx context.Context, r api.ListOrdersRequestObject) (api.ListOrdersResponseObject, error) {
	page, next, err := h.store.Orders(ctx, customerOf(ctx), r.Params.Cursor, pageOf(r.Params.Limit))
	if err != nil {
		return nil, err
	}
	return api.ListOrders200JSONResponse{Orders: each(page, orderOf), Next: next}, nil
}

func (h *Handler) CancelOrder(
	ctx context.Context, r api.CancelOrderRequestObject,
) (api.CancelOrderResponseObject, error) {
	key, err := keyOf(ctx, "cancelOrder", r.Id, r.Params.IdempotencyKey, nil)
	if err != nil {
		return nil, err
	}
	result, replayed, err := h.store.Step(ctx, repo.Ask{Order: r.Id, Key: key}, service.CancelOrder(customerOf(ctx)))
	if err != nil {
		return nil, err
	}
	return api.CancelOrder200JSONResponse{OrderJSONResponse: orderReply(*result.Order, replayed)}, nil
}

func orderReply(o service.Order, replayed bool) api.OrderJSONResponse {
	return api.OrderJSONResponse{Body: orderOf(o), Headers: api.OrderResponseHeaders{IdempotentReplayed: replayed}}
}

func orderOf(o service.Order) api.Order {
	return api.Order{
		OrderId: o.ID, Customer: o.Customer, State: api.OrderState(o.State), Lines: each(o.Lines, lineOf),
		ReservationId: o.ReservationID, Late: o.Late, CreatedAt: o.CreatedAt, CanceledAt: o.CanceledAt,
	}
}

func lineOf(l service.Line) api.Line { return api.Line{Sku: l.SKU, Quantity: l.Quantity} }

// sortLines: two requests that differ in the order of their lines only are the same.
func sortLines(lines []api.Line) {
	slices.SortStableFunc(lines, func(a, b api.Line) int {
		return cmp.Or(cmp.Compare(a.Sku, b.Sku), cmp.Compare(a.Quantity, b.Quantity))
	})
}

func cartOf(lines []api.Line) []service.Line {
	return service.Cart(each(lines, func(l api.Line) service.Line {
		return service.Line{SKU: l.Sku, Quantity: l.Quantity}
	}))
}

// each returns what f makes of each item. It is never nil, because JSON would have null.
func each[A, B any](all []A, f func(A) B) []B {
	made := make([]B, len(all))
	for i, a := range all {
		made[i] = f(a)
	}
	return made
}

func pageOf(limit int) int {
	if limit == 0 {
		return 50
	}
	return limit
}
