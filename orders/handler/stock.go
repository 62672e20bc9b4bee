package handler

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"example.com/stock/orders/api"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

func (h *Handler) GetStock(ctx context.Context, r api.GetStockRequestObject) (api.GetStockResponseObject, error) {
	stock, err := h.store.Stock(ctx, r.Sku)
	if err != nil {
		return nil, err
	}
	return api.GetStock200JSONResponse{StockJSONResponse: stockReply(stock, false)}, nil
}

func (h *Handler) SetStock(ctx context.Context, r api.SetStockRequestObject) (api.SetStockResponseObject, error) {
	key, err := keyOf(ctx, "setStock", r.Sku, r.Params.IdempotencyKey, r.Body)
	if err != nil {
		return nil, err
	}
	ask := repo.Ask{SKUs: []string{r.Sku}, Create: true, Key: key}
	rule := service.SetStock(r.Sku, r.Body.Quantity, r.Body.Reason, conditionOf(r.Params.IfMatch))
	result, replayed, err := h.store.Step(ctx, ask, rule)
	if err != nil {
		return nil, err
	}
	return api.SetStock200JSONResponse{StockJSONResponse: stockReply(*result.Stock, replayed)}, nil
}

func (h *Handler) AdjustStock(
	ctx context.Context, r api.AdjustStockRequestObject,
) (api.AdjustStockResponseObject, error) {
	key, err := keyOf(ctx, "adjustStock", r.Sku, r.Params.IdempotencyKey, r.Body)
	if err != nil {
		return nil, err
	}
	ask := repo.Ask{SKUs: []string{r.Sku}, Create: true, Key: key}
	rule := service.AdjustStock(r.Sku, r.Body.Delta, r.Body.Reason, conditionOf(r.Params.IfMatch))
	result, replayed, err := h.store.Step(ctx, ask, rule)
	if err != nil {
		return nil, err
	}
	return api.AdjustStock200JSONResponse{StockJSONResponse: stockReply(*result.Stock, replayed)}, nil
}

func (h *Handler) SetPolicy(ctx context.Context, r api.SetPolicyRequestObject) (api.SetPolicyResponseObject, error) {
	ask := repo.Ask{SKUs: []string{r.Sku}}
	result, _, err := h.store.Step(ctx, ask, service.SetPolicy(r.Sku, r.Body.PerCustomer))
	if err != nil {
		return nil, err
	}
	return api.SetPolicy200JSONResponse{StockJSONResponse: stockReply(*result.Stock, false)}, nil
}

func (h *Handler) ListMovements(
	ctx context.Context, r api.ListMovementsRequestObject,
) (api.ListMovementsResponseObject, error) {
	if _, err := h.store.Stock(ctx, r.Sku); err != nil {
		return nil, err
	}
	page, err := h.store.Movements(ctx, r.Sku, r.Params.Cursor, pageOf(r.Params.Limit))
	if err != nil {
		return nil, err
	}
	return api.ListMovements200JSONResponse{Movements: each(page, movementOf)}, nil
}

func stockReply(s service.Stock, replayed bool) api.StockJSONResponse {
	headers := api.StockResponseHeaders{
		ETag:               fmt.Sprintf("%q", strconv.FormatInt(s.Number, 10)),
		IdempotentReplayed: replayed,
	}
	return api.StockJSONResponse{Body: stockOf(s), Headers: headers}
}

func stockOf(s service.Stock) api.Stock {
	return api.Stock{
		Sku: s.SKU, Received: s.Received, Available: s.Available, Reserved: s.Reserved, Sold: s.Sold, Number: s.Number,
		PerCustomer: s.PerCustomer,
	}
}

func movementOf(m service.Movement) api.Movement {
	return api.Movement{
		Sku: m.SKU, Number: m.Number, Kind: api.MovementKind(m.Kind), Received: m.Received, Available: m.Available,
		Reserved: m.Reserved, Sold: m.Sold, Ref: m.Ref, Customer: m.Customer, Reason: m.Reason, At: m.At,
	}
}

// conditionOf returns the condition of an If-Match, which is the number of a stock in quotes.
func conditionOf(header string) service.Condition {
	number, err := strconv.ParseInt(strings.Trim(header, `"`), 10, 64)
	if err != nil {
		return service.AnyNumber // it is absent: the document allows nothing else
	}
	return service.Condition(number)
}
