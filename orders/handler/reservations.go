package handler

import (
	"context"
	"time"

	"example.com/stock/orders/api"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

func (h *Handler) Reserve(ctx context.Context, r api.ReserveRequestObject) (api.ReserveResponseObject, error) {
	sortLines(r.Body.Lines)
	key, err := keyOf(ctx, "reserve", "", r.Params.IdempotencyKey, r.Body)
	if err != nil {
		return nil, err
	}
	held := service.Reservation{ID: newID(), Customer: customerOf(ctx), Lines: cartOf(r.Body.Lines)}
	ask := repo.Ask{SKUs: service.SKUs(held.Lines), Customer: held.Customer, Reserves: true, Key: key}
	result, replayed, err := h.store.Step(ctx, ask, service.Reserve(held, seconds(r.Body.TtlSeconds), h.limits))
	if err != nil {
		return nil, err
	}
	headers := api.ReservationCreatedResponseHeaders{
		IdempotentReplayed: replayed, Location: "/v1/reservations/" + result.Reservation.ID,
	}
	reply := api.ReservationCreatedJSONResponse{Body: reservationOf(*result.Reservation), Headers: headers}
	return api.Reserve201JSONResponse{ReservationCreatedJSONResponse: reply}, nil
}

func (h *Handler) GetReservation(
	ctx context.Context, r api.GetReservationRequestObject,
) (api.GetReservationResponseObject, error) {
	found, err := h.store.Reservation(ctx, customerOf(ctx), r.Id)
	if err != nil {
		return nil, err
	}
	return api.GetReservation200JSONResponse{ReservationJSONResponse: reservationReply(found, false)}, nil
}

func (h *Handler) ConfirmReservation(
	ctx context.Context, r api.ConfirmReservationRequestObject,
) (api.ConfirmReservationResponseObject, error) {
	key, err := keyOf(ctx, "confirmReservation", r.Id, r.Params.IdempotencyKey, nil)
	if err != nil {
		return nil, err
	}
	who := customerOf(ctx)
	ask := repo.Ask{Reservation: r.Id, Customer: who, Key: key}
	result, replayed, err := h.store.Step(ctx, ask, service.ConfirmReservation(who, newID()))
	if err != nil {
		return nil, err
	}
	return api.ConfirmReservation200JSONResponse{OrderJSONResponse: orderReply(*result.Order, replayed)}, nil
}

func (h *Handler) ExtendReservation(
	ctx context.Context, r api.ExtendReservationRequestObject,
) (api.ExtendReservationResponseObject, error) {
	key, err := keyOf(ctx, "extendReservation", r.Id, r.Params.IdempotencyKey, r.Body)
	if err != nil {
		return nil, err
	}
	rule := service.ExtendReservation(customerOf(ctx), seconds(r.Body.TtlSeconds))
	result, replayed, err := h.store.Step(ctx, repo.Ask{Reservation: r.Id, Key: key}, rule)
	if err != nil {
		return nil, err
	}
	reply := reservationReply(*result.Reservation, replayed)
	return api.ExtendReservation200JSONResponse{ReservationJSONResponse: reply}, nil
}

func (h *Handler) CancelReservation(
	ctx context.Context, r api.CancelReservationRequestObject,
) (api.CancelReservationResponseObject, error) {
	key, err := keyOf(ctx, "cancelReservation", r.Id, r.Params.IdempotencyKey, nil)
	if err != nil {
		return nil, err
	}
	rule := service.CancelReservation(customerOf(ctx))
	result, replayed, err := h.store.Step(ctx, repo.Ask{Reservation: r.Id, Key: key}, rule)
	if err != nil {
		return nil, err
	}
	reply := reservationReply(*result.Reservation, replayed)
	return api.CancelReservation200JSONResponse{ReservationJSONResponse: reply}, nil
}

func reservationReply(r service.Reservation, replayed bool) api.ReservationJSONResponse {
	return api.ReservationJSONResponse{
		Body: reservationOf(r), Headers: api.ReservationResponseHeaders{IdempotentReplayed: replayed},
	}
}

func reservationOf(r service.Reservation) api.Reservation {
	return api.Reservation{
		ReservationId: r.ID, Customer: r.Customer, State: api.ReservationState(r.State), Lines: each(r.Lines, lineOf),
		OrderId: r.OrderID, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, ExtendedAt: r.ExtendedAt,
		EndedAt: r.EndedAt,
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
