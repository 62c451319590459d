class Account:
    def __init__(self, owner, balance):
        self.owner = owner
        self.balance = balance

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError("insufficient funds")
        self.balance -= amount
        return self.balance


def run_account(owner, start, amounts):
    account = Account(owner, start)
    refused = []
    for amount in amounts:
        try:
            account.withdraw(amount)
        except ValueError:
            refused.append(amount)
    return account.balance, refused
