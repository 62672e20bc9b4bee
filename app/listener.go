package app

import (
	"errors"
	"net"
)

func (a *App) listen() (err error) {
	if a.listener, err = net.Listen("tcp", a.cfg.Addr); err != nil {
		return phrases.Error("listen", "why", err)
	}
	if a.cfg.Admin.Addr == "" {
		return nil
	}
	if a.operators, err = net.Listen("tcp", a.cfg.Admin.Addr); err != nil {
		_ = a.listener.Close()
		return phrases.Error("listen-operators", "why", err)
	}
	return nil
}

func (a *App) closeListeners() error {
	err := a.listener.Close()
	if a.operators != nil {
		err = errors.Join(err, a.operators.Close())
	}
	return err
}

// Addr returns the address of the listener for clients.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// AdminAddr returns the address of the listener for operators, or nil if there is none.
func (a *App) AdminAddr() net.Addr {
	if a.operators == nil {
		return nil
	}
	return a.operators.Addr()
}
